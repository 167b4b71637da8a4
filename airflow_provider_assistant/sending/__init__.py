"""Send many requests, each claimed in the ledger before it is sent and recorded after it."""
