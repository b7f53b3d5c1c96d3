"""Environment variables of flags, beside those that Kubernetes sets for Services.

For a Service `trimtab`, Kubernetes may set `TRIMTAB_PORT=tcp://10.0.0.1:8000`, which has the name
of the variable of `--port`. The form of the value distinguishes the two.
"""

import re
from typing import TYPE_CHECKING, Final

import cyclopts

if TYPE_CHECKING:
    from cyclopts.argument import ArgumentCollection

PREFIX: Final = "TRIMTAB_"
"""Prefix of variables: that of `--kube-api-qps` is `TRIMTAB_KUBE_API_QPS`."""
_NAME_OF_LINK: Final = re.compile(
    r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?$"
)
"""Variables that Kubernetes sets for a Service such as `trimtab-updater-metrics`."""
_VALUE_OF_LINK: Final = re.compile(r"(tcp|udp|sctp)://")


def has_name_of_link(name: str) -> bool:
    """Return True if Kubernetes may have set a variable of this name for a Service."""
    return _NAME_OF_LINK.search(name) is not None


def is_link(name: str, value: str) -> bool:
    """Return True if Kubernetes has set the variable to the address of a Service."""
    return name.endswith("_PORT") and _VALUE_OF_LINK.match(value) is not None


class FlagVariables(cyclopts.config.Env):
    """Values of flags from the environment, without addresses of Services."""

    def __call__(
        self, app: cyclopts.App, commands: tuple[str, ...], arguments: "ArgumentCollection"
    ) -> None:
        """Set each flag that is not on the command line to the value of its variable."""
        super().__call__(app, commands, arguments)
        for argument in arguments:
            argument.tokens[:] = [
                token
                for token in argument.tokens
                if token.source != self.source or not is_link(token.keyword or "", token.value)
            ]
