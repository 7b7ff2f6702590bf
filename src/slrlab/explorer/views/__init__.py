"""The views, each a module of its own, in the order in which the explorer lists them."""

from slrlab.explorer.view import View
from slrlab.explorer.views.atlas import Atlas
from slrlab.explorer.views.landscape import Landscape
from slrlab.explorer.views.plan import Plan
from slrlab.explorer.views.population import Population
from slrlab.explorer.views.retrieve import Retrieve
from slrlab.explorer.views.samples import Samples

VIEWS: dict[str, View] = {
    view.name: view for view in (Retrieve(), Population(), Samples(), Landscape(), Atlas(), Plan())
}
