"""SolKit's measured sets, as files beside this one. `solkit.datasets.shipped.folder` finds them."""
