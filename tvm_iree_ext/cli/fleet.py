"""``tvm-iree-ext fleet``: other machines that measure candidates for ``tune``."""

import argparse
import functools
import json

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import TuningError


def add_fleet(commands: argparse._SubParsersAction) -> None:
    """Add the command ``fleet``."""
    parser = commands.add_parser(
        "fleet",
        help="lend machines to 'tune': TVM's RPC tracker and servers",
        description="A tracker knows servers, one for each device; 'tune' builds on its own machine"
        " and has candidates measured by them.  All listen on loopback unless told otherwise,"
        " which needs a secret: TVM_IREE_EXT_FLEET_SECRET names a file with it, for all of them.",
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    where = ext.tuning.fleet_address

    tracker = actions.add_parser("tracker", help="know servers, until it is ended")
    tracker.add_argument("--host", default=where.HOST, help="to listen at (default: %(default)s)")
    tracker.add_argument(
        "--port", type=int, default=where.PORT, help="the first to try (default: %(default)s)"
    )
    tracker.set_defaults(run=run_tracker)

    server = actions.add_parser("server", help="lend the devices of this machine, until ended")
    _add_tracker(server)
    server.add_argument(
        "--key", default=where.DEFAULT_KEY, help="which devices are alike (default: %(default)s)"
    )
    server.add_argument("--host", default=where.HOST, help="to listen at (default: %(default)s)")
    server.add_argument("--advertise", metavar="HOST", help="the address that clients are told")
    server.add_argument(
        "--gpus", metavar="N,N", help="a server for each of these GPUs (default: one for the CPU)"
    )
    server.set_defaults(run=run_server)

    status = actions.add_parser("status", help="print the servers that a tracker knows")
    _add_tracker(status)
    status.add_argument("--json", action="store_true", help="print JSON instead of text")
    status.set_defaults(run=run_status)


def _add_tracker(parser: argparse.ArgumentParser) -> None:
    default = f"{ext.tuning.fleet_address.HOST}:{ext.tuning.fleet_address.PORT}"
    parser.add_argument(
        "--tracker", metavar="HOST:PORT", default=default, help="(default: %(default)s)"
    )


def run_tracker(args: argparse.Namespace) -> None:
    """Be the tracker."""
    ext.tuning.fleet_address.check_host(args.host)
    ext.tuning.fleet_measurer.serve_tracker(args.host, args.port, _said)


def run_server(args: argparse.Namespace) -> None:
    """Keep the servers up."""
    ext.tuning.fleet_address.check_host(args.host)
    tracker = ext.tuning.fleet_address.address(args.tracker)
    ext.tuning.fleet_measurer.status(tracker)  # says so if there is none
    device = ext.tuning.fleet_device
    devices = [device.Device()]
    if args.gpus is not None:
        if not all(number.isdecimal() for number in args.gpus.split(",")):
            raise TuningError(f"--gpus is {args.gpus!r}; expected numbers, as 0,1")
        devices = device.gpu_devices([int(number) for number in args.gpus.split(",")])
    device.serve(tracker, args.key, devices, host=args.host, advertise=args.advertise, said=_said)


_said = functools.partial(print, flush=True)


def run_status(args: argparse.Namespace) -> None:
    """Print a line for each key."""
    known = ext.tuning.fleet_measurer.status(ext.tuning.fleet_address.address(args.tracker))
    if args.json:
        print(json.dumps(known, indent=2))
        return
    for key, data in known.items():
        where = ", ".join(data["servers"])
        print(f"{key}: {len(data['servers'])} servers, {data['free']} free at {where}")
    print(f"{len(known)} keys at {args.tracker}")
