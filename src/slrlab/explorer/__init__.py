"""The explorer: the theory in a browser, live with a server or as static pages.

Each view is one module of `slrlab.explorer.views`. It takes its numbers from the library and holds
no formula. Streamlit, Altair and vl-convert come with the extra ``explorer`` and are imported where
they are used.
"""
