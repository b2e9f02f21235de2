"""Progress reaches whoever listens, and nobody else."""

from __future__ import annotations

from solkit.core import progress


def test_progress_reaches_its_listener_while_it_listens():
    heard = []
    progress.tell("nobody hears this")
    with progress.reported_to(heard.append):
        progress.tell("loading")
        progress.tell("shapes analysed", 1, 3)
        progress.tell("rows read", 12)
    progress.tell("nor this")
    assert heard == ["loading", "1 of 3 shapes analysed", "12 rows read"]
