"""Error messages for a cluster that does not serve a command: the problem and the remedy."""

import re
import socket
import ssl
from http import HTTPStatus
from typing import Final

from trimtab.api.http.responses import ResponseError
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster import address, errors
from trimtab.cluster.errors import (
    ApiError,
    CredentialsError,
    ForbiddenError,
    NotFoundError,
    PluginError,
    UnauthorizedError,
    UnreachableError,
)
from trimtab.cluster.http.connections import ProxyError

CRDS_MISSING: Final = (
    "the CRDs are missing: trimtab crds | kubectl apply --server-side --force-conflicts -f -"
)
_USER: Final = re.compile(r'.*\bUser "([^"]+)" cannot ')
"""The user that the server refuses; without credentials it is system:anonymous."""
_OWN_KINDS: Final = "/apis/autoscaling.k8s.io/"
_CHECK_SERVER: Final = "check the server in the kubeconfig"
_NO_API_SERVER: Final = f"{_CHECK_SERVER}, its port above all"
_CHECK_PROXY: Final = "check proxy-url in the kubeconfig, HTTPS_PROXY and NO_PROXY"
_CHECK_NETWORK: Final = "check the network, VPN and firewalls"
_HTTPS_EXPECTED: Final = "HTTP request to an HTTPS server"


def explain_problem(error: Exception, server: str) -> str:
    """Describe the problem with the cluster at the server's address, and the remedy."""
    match error:
        case PluginError():
            text = f"no way to a cluster: {error}; log in again, or check the user's exec in it"
        case CredentialsError():
            text = f"no way to a cluster: {error}; name a kubeconfig by --kubeconfig"
        case ForbiddenError():
            text = _explain_refusal(error, server)
        case NotFoundError():
            text = _explain_absence(error, server)
        case UnreachableError():
            text = _explain_silence(error, server)
        case ApiError():
            text = _explain_status(error, server)
        case DecodeError():
            text = f"what answers at {server} is no Kubernetes API server; {_NO_API_SERVER}"
        case _:
            reason = errors.describe(error)
            text = f"no answer from the cluster at {server}: {reason}; {_CHECK_NETWORK}"
    return text


def _explain_refusal(error: ForbiddenError, server: str) -> str:
    right = error.right
    if right is None:
        return f"the cluster at {server} forbids it: {error.status.message or error.request}"
    where = f"-n {right.namespace}" if right.namespace else "-A"
    kind = f"{right.resource}.{right.group}" if right.group else right.resource
    user = _USER.match(error.status.message)
    who = f" (as {user[1]})" if user else ""
    return (
        f"no view at {server}: missing right: {right}{who};"
        f" ask an administrator for it, and check: kubectl auth can-i {right.verb} {kind} {where}"
    )


def _explain_absence(error: NotFoundError, server: str) -> str:
    path = error.request.rpartition(" ")[2]
    if path.startswith(_OWN_KINDS):
        return f"no autoscalers at {server}: {CRDS_MISSING}"
    return f"what answers at {server} knows no {path}; {_NO_API_SERVER}"


def _explain_status(error: ApiError, server: str) -> str:
    code, message = error.status.code, error.status.message
    if isinstance(error, UnauthorizedError):
        return (
            f"the cluster at {server} does not accept our credentials;"
            " log in again, or check the user of the context in the kubeconfig"
        )
    if _HTTPS_EXPECTED in message:
        return f"the cluster at {server} expects https:// and not http://; {_CHECK_SERVER}"
    # API servers do not redirect these requests, so this is another server.
    if code < HTTPStatus.BAD_REQUEST:
        return f"what answers at {server} leads elsewhere; {_NO_API_SERVER}"
    if code < HTTPStatus.INTERNAL_SERVER_ERROR and code != HTTPStatus.TOO_MANY_REQUESTS:
        return f"the cluster at {server} refuses {error.request}: {message or code}"
    return f"the cluster at {server} is not able to answer now: {message or code}; try again later"


def _explain_silence(error: UnreachableError, server: str) -> str:
    cause = error.__cause__
    if isinstance(cause, ResponseError):
        return f"what answers at {server} is no Kubernetes API server; {_NO_API_SERVER}"
    match cause:
        case ProxyError():
            problem, remedy = str(cause), _CHECK_PROXY
        case ConnectionRefusedError(errno=int()):
            problem, remedy = "nothing listens there", f"start the cluster, or {_CHECK_SERVER}"
        case socket.gaierror():
            host = address.parse_address(server).host
            problem, remedy = f"the name {host} cannot be found", f"{_CHECK_SERVER}, DNS and VPN"
        case ssl.SSLCertVerificationError():
            problem, remedy = errors.describe(cause), _remedy_for_certificate(cause)
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            remedy = f"{_CHECK_SERVER}: its port, and http:// or https://"
            problem = "it does not speak TLS"
        case _:
            problem, remedy = error.status.message, _CHECK_NETWORK
    return f"no answer from the cluster at {server}: {problem}; {remedy}"


def _remedy_for_certificate(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message
    if "mismatch" in message:
        return "name the right one by tls-server-name in the kubeconfig"
    if "expired" in message or "not yet valid" in message:
        return "renew it, or correct the clock of this machine"
    return "put the cluster's CA into certificate-authority-data of the kubeconfig"
