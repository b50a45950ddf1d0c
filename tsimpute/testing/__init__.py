'''Laws that hold for every plug-in of a kind, for the author of a plug-in to check.

A plug-in is a class with the methods of its contract (``tsimpute/<kind>/base.py``). Settings take it by its import
path, as an entry point of its package, or as the class itself; ``check_plugin`` says whether it behaves as the rest of
the package relies on. It needs neither pytest nor any other package::

    # my_package/solvers.py
    from tsimpute.solvers.one_step import OneStep

    class Halves(OneStep):
        """A solver of one's own."""
        name = "halves"

    # tests/test_solvers.py
    from tsimpute.testing import check_plugin

    def test_halves_is_a_solver():
        check_plugin("solvers", "my_package.solvers:Halves", report=print)

Each law is a plain function, in ``tsimpute.testing.solvers``, ``processes``, ``backbones``, ``imputers`` or
``datasets``; the first line of its docstring states it. ``check_plugin`` checks all of them and raises one
``ContractError`` that names every broken law, what was expected and what came. A network should be made small by its
options, an imputer that trains likewise, and a data set of files is given their folder, or that of a small sample::

    check_plugin("backbones", MyNetwork, {"width": 8})
    check_plugin("imputers", "my_package.fill:MyImputer", {"epochs": 1}, deterministic=False)
    check_plugin("datasets", "my_package.data:Buoys", root="tests/sample_of_buoys")

With pytest, one test per law and case says more at once::

    from tsimpute.testing import cases, subject

    @pytest.mark.parametrize("case", cases("solvers"), ids=str)
    def test_halves(case):
        case.check(subject("solvers", Halves))
'''

from tsimpute.errors import ContractError
from tsimpute.testing._laws import Case, DoesNotApply, Law, cases, check_plugin, laws, subject

__all__ = ["Case", "ContractError", "DoesNotApply", "Law", "cases", "check_plugin", "laws", "subject"]
