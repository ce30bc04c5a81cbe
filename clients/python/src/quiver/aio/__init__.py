"""The same with `async` and `await`: `async with quiver.aio.Router() as router: print(await router.command("show version"))`."""

from ..transaction import AioTransaction as Transaction
from .follow import Follower
from .packets import Injector, Passing
from .program import Program
from .router import Router

__all__ = ["Follower", "Injector", "Passing", "Program", "Router", "Transaction"]
