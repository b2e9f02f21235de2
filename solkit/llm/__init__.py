"""Language models that are asked: behind an endpoint or on this machine, under a budget.

::

    Asking ─► Chat (endpoint, local, a replay) ─► Answered
       └─ budget, retries, record (exchanges)
"""
