"""The flags that all components of the original have, version 1.8, with their defaults."""

from datetime import timedelta

COMMON: dict[str, object] = {
    "--kubeconfig": "",
    "--kube-api-qps": 50,
    "--kube-api-burst": 100,
    "--profiling": False,
    "--vpa-object-namespace": "",
    "--ignored-vpa-object-namespaces": "",
    "--feature-gates": "",
    "--v": 4,
    "--stderrthreshold": "info",
    "--logtostderr": True,
    "--alsologtostderr": False,
    "--alsologtostderrthreshold": "",
    "--add-dir-header": False,
    "--skip-headers": False,
    "--skip-log-headers": False,
    "--one-output": False,
    "--log-backtrace-at": ":0",
    "--log-dir": "",
    "--log-file": "",
    "--log-file-max-size": 1800,
    "--legacy-stderr-threshold-behavior": True,
    "--vmodule": "",
    "--leader-elect": False,
    "--leader-elect-lease-duration": timedelta(seconds=15),
    "--leader-elect-renew-deadline": timedelta(seconds=10),
    "--leader-elect-retry-period": timedelta(seconds=2),
    "--leader-elect-resource-lock": "leases",
    "--leader-elect-resource-namespace": "kube-system",
}
