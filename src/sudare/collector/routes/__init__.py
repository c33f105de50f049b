"""The collector's routes: one table, from which they are served and described.

reports     the hot route: one report, or a packed batch
tickets     handing out tickets
reading     description, estimates, activity, the live stream
operator    what needs the operator's token
pages       the dashboard, the page for trying it, the browser's client
"""

from sudare.collector.routes import operator, pages, reading, reports, tickets
from sudare.collector.routes.table import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (
    *reading.ENDPOINTS,
    *tickets.ENDPOINTS,
    *reports.ENDPOINTS,
    *operator.ENDPOINTS,
    *pages.ENDPOINTS,
)
