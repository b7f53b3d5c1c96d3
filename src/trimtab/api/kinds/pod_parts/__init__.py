"""Parts of pods: their wire records, containers, init containers and conditions."""
