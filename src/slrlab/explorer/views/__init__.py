"""The views, each a module of its own, in the order in which the explorer lists them."""

from slrlab.explorer.view import View
from slrlab.explorer.views.atlas import VIEW as ATLAS
from slrlab.explorer.views.landscape import VIEW as LANDSCAPE
from slrlab.explorer.views.plan import VIEW as PLAN
from slrlab.explorer.views.population import VIEW as POPULATION
from slrlab.explorer.views.retrieve import VIEW as RETRIEVE
from slrlab.explorer.views.samples import VIEW as SAMPLES

VIEWS: dict[str, View] = {
    view.name: view for view in (RETRIEVE, POPULATION, SAMPLES, LANDSCAPE, ATLAS, PLAN)
}
