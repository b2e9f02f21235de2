"""``solkit devices``: the GPUs of this machine and of the catalogue."""

from __future__ import annotations

from solkit.cli import _base, _options, exit_codes
from solkit.errors import SolkitError


def devices(json: _options.Json = None, verbose: _options.Tracebacks = False) -> None:
    """List the GPUs of this machine, the catalogue, and calibrations."""
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_writable(json)
        from solkit.report import devices as listing
        from solkit.roofline import calibration
        from solkit.roofline.devices import catalogue
        from solkit.roofline.nvml import live_devices

        catalogued = catalogue()
        own, faults = calibration.own()
        measured = [*((c, "you") for c in own), *((c, "SolKit") for c in calibration.shipped())]
        try:
            live = live_devices()
        except SolkitError as error:  # an unknown GPU: the catalogue is still useful
            live = ()
            _base.print_complaint(str(error))
        for fault in faults:
            _base.print_complaint(fault)
        if json != "-":
            listing.render(catalogued, live, _base.rich_console(), measured)
        _base.write_destination(json, lambda: listing.dumps(catalogued, live, measured))
