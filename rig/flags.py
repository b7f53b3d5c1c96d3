"""The command lines of a cluster's programs: on loopback only, with one authority for all."""

from pathlib import Path
from typing import Final

from rig.certificates import PROXY_NAME, Certificates

LOOPBACK: Final = "127.0.0.1"


def for_etcd(port: int, peer_port: int) -> list[str]:
    """A store that need not survive a power cut."""
    clients, peers = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer_port}"
    return [
        "--data-dir=etcd",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def for_apiserver(made: Certificates, tokens: Path, *, port: int, etcd_port: int) -> list[str]:
    """An API server with RBAC and tokens from a file."""
    return [
        f"--etcd-servers=http://{LOOPBACK}:{etcd_port}",
        f"--token-auth-file={tokens}",
        *_serving(made, port),
        f"--service-account-key-file={made.account_public_key}",
        f"--service-account-signing-key-file={made.account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=Node,RBAC",
        # Kubelets show certificates, and are shown one; no DNS knows the name of a node.
        f"--client-ca-file={made.authority}",
        f"--kubelet-certificate-authority={made.authority}",
        f"--kubelet-client-certificate={made.kubelet_client.certificate}",
        f"--kubelet-client-key={made.kubelet_client.key}",
        "--kubelet-preferred-address-types=InternalIP",
        *_aggregation(made),
        # Nobody dials in from elsewhere, and loopback may not stand in an endpoint.
        "--endpoint-reconciler-type=none",
    ]


def for_controllers(made: Certificates, kubeconfig: Path, port: int) -> list[str]:
    """All controllers, the node lifecycle too: it takes the not-ready taint from new nodes."""
    return [
        f"--kubeconfig={kubeconfig}",
        *_serving(made, port),
        f"--service-account-private-key-file={made.account_key}",
        f"--root-ca-file={made.authority}",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def for_scheduler(made: Certificates, kubeconfig: Path, port: int) -> list[str]:
    """A scheduler that need not wait for a lease."""
    return [
        f"--kubeconfig={kubeconfig}",
        *_serving(made, port),
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def for_kwok(made: Certificates, kubeconfig: Path, configuration: Path, port: int) -> list[str]:
    """Stages for the nodes that say they are fake; real ones may join the same cluster."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={configuration}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--server-address={LOOPBACK}:{port}",
        # Where nodes say that their kubelet is: kwok itself answers for all of them.
        f"--node-ip={LOOPBACK}",
        f"--node-port={port}",
        *_certificate(made),
        # Without leases a node is given up after 50 seconds, and comes back, again and again.
        "--node-lease-duration-seconds=40",
        "--cidr=10.64.0.0/12",
    ]


def for_metrics_server(made: Certificates, kubeconfig: Path, port: int) -> list[str]:
    """A server of the newest usage, as fast as it can be told to be."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        *_serving(made, port),
        # It ends at once unless a node may take less time to answer than passes between questions.
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
        "--kubelet-use-node-status-port",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={made.authority}",
        f"--kubelet-client-certificate={made.kubelet_client.certificate}",
        f"--kubelet-client-key={made.kubelet_client.key}",
    ]


def _aggregation(made: Certificates) -> list[str]:
    """How servers behind the API server know that it is the one who asks, and for whom."""
    return [
        f"--requestheader-client-ca-file={made.authority}",
        # The same authority vouches for all clients: only one of them may speak for others.
        f"--requestheader-allowed-names={PROXY_NAME}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={made.proxy.certificate}",
        f"--proxy-client-key-file={made.proxy.key}",
    ]


def _serving(made: Certificates, port: int) -> list[str]:
    return [f"--bind-address={LOOPBACK}", f"--secure-port={port}", *_certificate(made)]


def _certificate(made: Certificates) -> list[str]:
    return [
        f"--tls-cert-file={made.server.certificate}",
        f"--tls-private-key-file={made.server.key}",
    ]
