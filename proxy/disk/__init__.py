"""What the proxy keeps: append-only segments, and on them the queue of each tenant and the quarantine.

From the ground up: `durable` (writes that are on the disk), `segments` (files of frames), then on the one side `spool`
and `queue`, on the other `quarantine_log` and `quarantine`, each a half for threads and a half for the event loop.
"""
