"""SolKit for others: a queue of jobs, over HTTP (`solkit serve`) or MCP (`solkit mcp`).

::

    app (HTTP), mcp ─► desk ─► store (SQLite) ◄─ worker: workshop     a process per GPU
                        └── starts, wakes, replaces ──┘

Requests are jobs on disk before they are answered, so a killed server or worker loses none. Jobs
are a queue and its answers; measurements are outcomes, which the log keeps (docs/logs.md).
"""
