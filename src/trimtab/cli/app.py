"""All commands of `trimtab` with their help, as cyclopts parses them.

Each subcommand is a module of its own, imported when it is called. The signature of a command and
its records of flags declare its whole command line.
"""

import sys
from collections.abc import Sequence
from typing import Final

import cyclopts

from trimtab import __version__
from trimtab.cli.errors import UsageError
from trimtab.cli.flags import usage_errors
from trimtab.cli.flags.environment import PREFIX, FlagVariables
from trimtab.cli.flags.help import HelpPage

COMPONENTS: Final = frozenset({"recommender", "updater", "admission-controller", "roles", "run"})
"""Commands that run components as long-lived processes."""
_FORGIVING: Final = COMPONENTS - {"run"}
"""Commands that accept unknown arguments, as `unused`: manifests outlive flags."""
_ENVIRONMENT: Final = FlagVariables(PREFIX, command=False)
_FLAGS: Final = cyclopts.Parameter(
    # As in Go, the last value counts.
    allow_repeating=True,
    show_env_var=False,
)

app = cyclopts.App(
    name="trimtab",
    help="""A Vertical Pod Autoscaler for Kubernetes.

    For example:
      trimtab demo          what it does, without a cluster
      trimtab report -A     what all workloads request, and what they should
      trimtab run           all components in one process, for a trial
    """,
    version=__version__,
    version_flags=["--version"],
    help_flags=["--help", "-h"],
    help_format="plaintext",
    help_formatter=HelpPage(),
    result_action="return_value",
)
app.command(
    "trimtab.cli.commands.crds:print_crds",
    name="crds",
    help="""Print the CustomResourceDefinitions, ready for kubectl apply.

    --force-conflicts takes over those that kubectl create or Helm has made, as the installer of the
    original does; autoscalers and checkpoints stay.

    For example:
      trimtab crds | kubectl apply --server-side --force-conflicts -f -
    """,
)
app.command(
    "trimtab.cli.commands.validate:validate_files",
    name="validate",
    usage="Usage: trimtab validate [OPTIONS] FILE...",
    help="""Check manifests of autoscalers as the cluster would, without one.

    Prints every error and warning with its path. Several autoscalers, in one file or in many, are
    also checked against each other. The exit code is 0 without errors, 1 with any or if there is
    no autoscaler in any file, and 2 if a file cannot be read.

    For example:
      trimtab validate autoscaler.yaml
      trimtab validate manifests/*.yaml
      kubectl get vpa -A -o yaml | trimtab validate -
    """,
)
app.command(
    "trimtab.cli.components.recommender:recommend",
    name="recommender",
    usage="Usage: trimtab recommender [OPTIONS]",
    help="""Learn what containers use, and recommend what they should request.

    Flags have the names and defaults of the original's. Each can be set by the environment, too:
    --recommender-interval is TRIMTAB_RECOMMENDER_INTERVAL. The exit code is 0 after SIGTERM
    or Ctrl-C, 1 if there is no cluster, and 2 if the flags make no sense.

    For example:
      trimtab recommender --kubeconfig ~/.kube/config
      trimtab recommender --storage=prometheus --leader-elect
    """,
    config=_ENVIRONMENT,
    default_parameter=_FLAGS,
)
app.command(
    "trimtab.cli.components.updater:update",
    name="updater",
    usage="Usage: trimtab updater [OPTIONS]",
    help="""Bring running pods to what is recommended for them, in place or by eviction.

    What it would do, or why it does nothing, is shown for each pod at /plan. Flags have the names
    of the original's. Each can be set by the environment, too: --updater-interval is
    TRIMTAB_UPDATER_INTERVAL. The exit code is 0 after SIGTERM or Ctrl-C, 1 if there is no cluster,
    and 2 if the flags make no sense.

    For example:
      trimtab updater --updater-interval=30s
      trimtab updater --leader-elect --min-replicas=1
    """,
    config=_ENVIRONMENT,
    default_parameter=_FLAGS,
)
app.command(
    "trimtab.cli.components.admission:admit",
    name="admission-controller",
    usage="Usage: trimtab admission-controller [OPTIONS]",
    help="""Give new pods the size that is recommended for them, and check autoscalers.

    Flags have the names and defaults of the original's. Each can be set by the environment, too:
    --webhook-service is TRIMTAB_WEBHOOK_SERVICE. The exit code is 0 after SIGTERM or Ctrl-C,
    1 if there is no cluster or no certificate, and 2 if the flags make no sense.

    For example:
      trimtab admission-controller --register-webhook=true
    """,
    config=_ENVIRONMENT,
    default_parameter=_FLAGS,
)
app.command(
    "trimtab.cli.components.roles:keep_roles",
    name="roles",
    usage="Usage: trimtab roles [OPTIONS]",
    help="""Label the pod of each workload that holds its lease, so that it can be sized apart.

    A workload names its lease by the annotation trimtab.dev/role-lease. How each stands is shown at
    /roles. Every flag can be set by the environment, too: --role-label is TRIMTAB_ROLE_LABEL. The
    exit code is 0 after SIGTERM or Ctrl-C, 1 if there is no cluster, and 2 if the flags make no
    sense.

    For example:
      trimtab roles --leader-elect
      trimtab roles --vpa-object-namespace=shop
    """,
    config=_ENVIRONMENT,
    default_parameter=_FLAGS,
)
app.command(
    "trimtab.cli.components.run:run_all",
    name="run",
    usage="Usage: trimtab run [OPTIONS]",
    help="""Run all components in one process, on the cluster that kubectl uses.

    For small clusters and trials. Recommender, updater and admission controller, with --roles the
    role keeper too, share one log, one address and one view of the cluster. Each flag of a
    component is one here, by the same name. The exit code is 0 after SIGTERM or Ctrl-C, 1 if
    there is no cluster or a component broke, and 2 if the flags make no sense.

    For example:
      trimtab run
      trimtab run --context kind-trial --no-admission
    """,
    config=_ENVIRONMENT,
    default_parameter=_FLAGS,
)
app.command(
    "trimtab.cli.commands.get:get",
    name="get",
    usage="Usage: trimtab get [NAME...] [OPTIONS]",
    help="""Show what containers request, and what is recommended for them.

    Each container of each autoscaler: the request of a pod in the middle, the target, its bounds,
    and by how much the target is above the request. Nothing but reading is needed; the exit code is
    0, 1 if there is no cluster or no such namespace or autoscaler, and 2 if the flags make no
    sense.

    For example:
      trimtab get -A
      trimtab get web -n shop -o yaml
    """,
)
app.command(
    "trimtab.cli.report.command:report",
    name="report",
    usage="Usage: trimtab report [OPTIONS]",
    help="""Show what all workloads request, and what they should.

    Workloads without an autoscaler, too: what the recommender would say of each, after a look at
    the metrics API or from what Prometheus remembers. Nothing is written to the cluster. The exit
    code is 0, 1 if there is no cluster, no pod or no usage, and 2 if the flags make no sense.

    For example:
      trimtab report -A
      trimtab report -n shop --prometheus-address http://localhost:9090
      trimtab report -A -o html > report.html
      trimtab report -n shop --patch kustomize --out patches
    """,
)
app.command(
    "trimtab.cli.doctor.command:doctor",
    name="doctor",
    usage="Usage: trimtab doctor [OPTIONS]",
    help="""Find out what is wrong with a cluster, what that means, and what helps.

    Looks at the API server, rights, CRDs, components, leases, the webhook and its certificate, the
    metrics API, Prometheus, and at all autoscalers. Nothing is changed. The exit code is 0 if
    nothing is worse than a note, 3 if there are problems (with --strict: or warnings, or a check
    that could not run), 1 if there is no cluster or no right to read any of it, and 2 if the flags
    make no sense.

    For example:
      trimtab doctor
      trimtab doctor --strict -o json
    """,
)
_checkpoint = cyclopts.App(
    name="checkpoint",
    help="""Inspect, export and import checkpoints, which recommenders keep across restarts.

    For example:
      trimtab checkpoint inspect -A
    """,
)
_checkpoint.command(
    "trimtab.cli.checkpoint.command:inspect",
    name="inspect",
    usage="Usage: trimtab checkpoint inspect [NAME...] [OPTIONS]",
    help="""Show what checkpoints hold.

    For each container its samples, their age and percentiles; with --buckets every bucket, too.
    The state is ok, empty, orphaned (its autoscaler is gone) or damaged, with the reason. The exit
    code is 0, 1 if there is no cluster or no checkpoint of what was named, and 2 if the flags make
    no sense.

    For example:
      trimtab checkpoint inspect web -n shop
    """,
)
_checkpoint.command(
    "trimtab.cli.checkpoint.command:export",
    name="export",
    usage="Usage: trimtab checkpoint export [NAME...] [OPTIONS]",
    help="""Write checkpoints to a file.

    The file has all that they hold, and says where and when that was. It is a list that kubectl
    can read, too. The exit code is 0, 1 if there is no cluster or
    no checkpoint, and 2 if the flags make no sense.

    For example:
      trimtab checkpoint export -n shop > checkpoints.yaml
    """,
)
_checkpoint.command(
    "trimtab.cli.checkpoint.import_:import_files",
    name="import",
    usage="Usage: trimtab checkpoint import FILE... [OPTIONS]",
    help="""Store checkpoints from files: all of them, or none.

    Files are what export has written, or what kubectl get -o yaml has written of the original's.
    What is there already is not replaced without --overwrite. Stop the recommender first: one that
    runs overwrites what is imported. The exit code is 0, 1 if anything is damaged, in the way or
    refused, and 2 if the flags make no sense or a file cannot be read.

    For example:
      trimtab checkpoint import checkpoints.yaml
    """,
)
app.command(_checkpoint)
app.command(
    "trimtab.cli.explain.command:explain",
    name="explain",
    usage="Usage: trimtab explain (NAME | vpa/NAME | pod/NAME) [OPTIONS]",
    help="""Explain the numbers of an autoscaler, and why its pods are changed or left alone.

    Each number step by step: samples, percentile, margin, confidence, minimum, caps. For each pod:
    every check before a change, when the check will pass, and what the next pod would get. Running
    components answer if they can be reached. Otherwise the answer is computed from what the cluster
    stores, for which the right to read is enough. The exit code is 0, 1 if there is no cluster or
    no such autoscaler or pod, and 2 if the flags make no sense.

    For example:
      trimtab explain web -n shop
      trimtab explain pod/web-7d9f-x2x4p -n shop
      trimtab explain web -n shop --container app -o json
      trimtab explain web --from http://localhost:8942 --from http://localhost:8943
    """,
)
app.command(
    "trimtab.cli.demo.command:demo",
    name="demo",
    help="""Watch the real components at work on a simulated cluster, for a minute.

    Neither a cluster nor any configuration is needed. Without a terminal it is a log. Ctrl-C ends
    it early, with the same summary.

    For example:
      trimtab demo
    """,
)
app.command(
    "trimtab.cli.backtest.command:backtest",
    name="backtest",
    usage="Usage: trimtab backtest (--trace FILE | --namespace NAME...) [OPTIONS]",
    help="""Replay recorded usage under policies, and show what each would have done.

    Compares the real decisions of the recommender and the updater with the requests of today, with
    the original, and with a policy that knows the future. All figures are for one workload.

    For example:
      trimtab backtest --trace usage.csv.gz
      trimtab backtest --namespace shop --prometheus-address http://localhost:9090
    """,
)
app.command(
    "trimtab.cli.commands.simulate:simulate",
    name="simulate",
    help="""Give the components bad days in a simulated cluster, and watch what they do.

    Everything is drawn from a seed: the cluster, its workloads, and what goes wrong. The first line
    says what was drawn; the same seed is the same run on any machine. The exit code is 0 if no rule
    was broken, and 1 if any was.

    For example:
      trimtab simulate --seed 7
      trimtab simulate --seeds 10 --hours 6
    """,
)


app.command(
    "trimtab.cli.completion:print_script",
    name="completion",
    usage="Usage: trimtab completion bash|zsh|fish",
    help="""Print the script by which a shell completes commands, flags and names.

    Source it in the start file of your shell. The plugin of kubectl needs no script: kubectl asks
    the plugin itself.

    For example:
      source <(trimtab completion bash)
      trimtab completion zsh > "${fpath[1]}/_trimtab"
      trimtab completion fish > ~/.config/fish/completions/trimtab.fish
    """,
)


@app.command
def version() -> None:
    """Print the version.

    For example:
      trimtab version
    """
    sys.stdout.write(f"{__version__}\n")


def run(arguments: Sequence[str]) -> object:
    """Run a command and return its result; a UsageError if the arguments are invalid."""
    try:
        if arguments and arguments[0] in _FORGIVING:
            command, bound, unused, _ = app.parse_known_args(arguments)
            more = {"unused": tuple(unused)} if unused else {}
            return command(*bound.args, **bound.kwargs, **more)
        return app(arguments, exit_on_error=False, print_error=False)
    except cyclopts.CycloptsError as error:
        raise UsageError(usage_errors.explain_misuse(error)) from error


def help_for(arguments: Sequence[str]) -> str:
    """Return the command line that shows the help of the command in the arguments."""
    found, names = app, ["trimtab"]
    for word in arguments:
        if word.startswith("-") or word not in found:
            break
        found = found[word]
        names.append(word)
    return f"{' '.join(names)} --help"
