"""Public: the ports where devices submit: gRPC, gRPC with devices' certificates, and HTTPS, each where settings say."""

from __future__ import annotations

from collections.abc import Callable

from hubbub.protos import wire
from hubbub.protos.wire.intake import Intake
from hubbub.service import listening
from hubbub.service.certificates import Certificates
from hubbub.service.doors import Door, Hall
from hubbub.service.limits import connections_of_devices, device_intake
from hubbub.service.ports import Ports
from hubbub.shuffler.certified import DevicesAuthority
from hubbub.shuffler.exposure import warn_if_exposed
from hubbub.shuffler.metrics import TimedAdmission
from hubbub.shuffler.settings import PublicSettings
from hubbub.shuffler.tasks import Tasks


async def open_to_devices(
    ports: Ports,
    settings: PublicSettings,
    tasks: Tasks,
    admission: TimedAdmission,
    certificates: Certificates,
    devices: DevicesAuthority | None,
    others: int = 0,
    *,
    shared: bool = False,
    full: Callable[[], bool] = lambda: False,
) -> dict[str, Intake]:
    """Open the devices' ports, and return their intakes by name; so many `others` share the limit of connections.

    At ports that are `shared`, other processes of this service listen, too; `full` says whether the one that keeps what
    is taken has no memory for more.

    Raises:
        HubbubError: where an address cannot be used.
    """
    if not shared:
        warn_if_exposed(settings)
    limits = settings.limits
    optional = {"devices": devices is not None, "https": bool(settings.https_listen)}
    names = ("submission", *(name for name, is_set in optional.items() if is_set))
    # How long an envelope is, only the tasks say.
    envelope_bytes = max(task.outer_bytes for task in tasks.values())
    largest = wire.largest_submissions(envelope_bytes)
    many = connections_of_devices(limits, len(names) + others)
    intakes = {name: device_intake(limits, many, largest, full) for name in names}
    service, server = wire.SUBMISSION_SERVICE, listening.new_server(many, largest, shared=shared)
    wire.serve_submissions(server, admission, intakes["submission"], envelope_bytes)
    everyone = certificates.server(mutual=False)
    await ports.open("submission", settings.listen, service, server, everyone, intakes["submission"], shared=shared)
    if devices is not None:
        certified = listening.new_server(many, largest, shared=shared)
        wire.serve_certified(certified, admission, intakes["devices"], envelope_bytes)
        credentials = devices.port(certificates)
        await ports.open(
            "devices", settings.devices_listen, service, certified, credentials, intakes["devices"], shared=shared
        )
    if settings.https_listen:
        of_address = None if settings.behind_proxy else limits.address_connections
        doorway = wire.submission_doorway(admission, intakes["https"], envelope_bytes)
        hall = Hall(many, of_address, settings.https_origins)
        door = Door(doorway, hall, settings.tls.paths(), lambda: certificates.renewals, shared=shared)
        await ports.open_door("https", settings.https_listen, door)
    return intakes
