"""A FastAPI application whose routes are methods of a deployment; one of them calls another deployment: python http_api.py"""

import json
import os
from typing import Annotated, Any, Dict
from urllib.request import Request, urlopen

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel

from anyserve import serve
from anyserve.serve.handle import DeploymentHandle

URL = "http://127.0.0.1:%s" % os.environ.get("ANYSERVE_PORT", "8000")
api = FastAPI(title="Shop")


class Order(BaseModel):
    item: str
    count: int = 1


class Bill(BaseModel):
    total: float


@serve.deployment
class Prices:
    prices = {"tea": 2.5, "cup": 8.0}

    def get(self, item: str) -> float:
        return self.prices[item]

    def has(self, item: str) -> bool:
        return item in self.prices


def discount(member: bool = False) -> float:
    """A dependency: `?member=true`."""
    return 0.9 if member else 1.0


@serve.deployment
@serve.ingress(api)
class Shop:
    def __init__(self, prices: DeploymentHandle) -> None:
        self.prices = prices

    @api.post("/orders", response_model=Bill)
    async def order(self, order: Order, factor: Annotated[float, Depends(discount)]) -> Dict[str, Any]:
        if not await self.prices.has.remote(order.item):
            raise HTTPException(404, "there is no %s" % order.item)
        return {"total": factor * order.count * await self.prices.get.remote(order.item), "internal": "left out"}


app = Shop.bind(Prices.bind())

if __name__ == "__main__":
    serve.run(app, route_prefix="/shop")
    order = json.dumps({"item": "tea", "count": 4}).encode()
    for query in ("", "?member=true"):
        request = Request(URL + "/shop/orders" + query, order, {"content-type": "application/json"})
        print(urlopen(request).read().decode())
