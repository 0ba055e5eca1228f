"""A driver for lamps. A lamp is a file in /var/lib/lamps, so that no hardware is needed to try it."""

from collections.abc import Iterator

from dray.sdk import Device, Driver, Host, run


class Lamps(Driver):
    """Every container that asks for a lamp gets its file."""

    name = "lamp.example.com"
    resource = "example.com/lamp"

    def discover(self, host: Host) -> Iterator[Device]:
        """One device for each file."""
        for path in host.glob("/var/lib/lamps/*"):
            name = path.rpartition("/")[2]
            yield Device(name, mounts=[path], attributes={"colour": host.read_text(path)})


if __name__ == "__main__":
    run(Lamps())
