"""Signals of pressure, as the kubelet counts them: throttling, and waiting for memory."""

from dataclasses import dataclass

from trimtab.core.model.estimation import Measure
from trimtab.core.usage.pressure import PressureReading, PressureReadings
from trimtab.simulation.nodes.kubelet import Kubelet


@dataclass(frozen=True, slots=True)
class SimulatedPressure:
    """The readings of the kubelet's last turn as a source of pressure."""

    kubelet: Kubelet

    async def fetch(self) -> PressureReadings:
        """Return the pressure on all containers that still run."""
        running = self.kubelet.running
        readings = running.readings
        if readings is None:
            return PressureReadings()
        places = running.places_of(readings)
        seconds = readings.at.timestamp()
        names = running.names_of(readings.rows[places])
        throttled = readings.throttled[places].tolist()
        waiting = readings.memory_waiting[places].tolist()
        return PressureReadings(
            {
                (name.namespace, name.pod, name.container): PressureReading(
                    seconds, {Measure.THROTTLED: cpu, Measure.MEMORY_WAITING: memory}
                )
                for name, cpu, memory in zip(names, throttled, waiting, strict=True)
            }
        )
