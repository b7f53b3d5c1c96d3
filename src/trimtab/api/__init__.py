"""The wire: records for the few fields we read, decoding, encoding, validation and the CRDs."""
