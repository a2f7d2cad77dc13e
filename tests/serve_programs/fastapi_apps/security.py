"""FastAPI: bearer tokens, basic authentication and an API key, as dependencies of routers."""

import os
from typing import Annotated

import httpx
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Security
from fastapi.security import APIKeyHeader, HTTPBasic, HTTPBasicCredentials, HTTPBearer, SecurityScopes

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)
app = FastAPI()
admin = APIRouter(prefix="/admin", tags=["admin"])


def scopes(wanted: SecurityScopes, token=Depends(HTTPBearer())):
    if not set(wanted.scopes) <= set(token.credentials.split("+")):
        raise HTTPException(403, "needs " + wanted.scope_str)
    return token.credentials


@admin.get("/basic")
def basic(who: Annotated[HTTPBasicCredentials, Depends(HTTPBasic(realm="here"))]):
    return {"user": who.username, "right": who.password == "pass"}


@admin.get("/key")
def key(value: Annotated[str | None, Security(APIKeyHeader(name="X-Key", auto_error=False))]):
    return {"key": value}


app.include_router(admin)


@serve.deployment
@serve.ingress(app)
class Api:
    @app.get("/read")
    def read(self, token: str = Security(scopes, scopes=["read"])):
        return {"token": token}

    @app.get("/write")
    def write(self, token: str = Security(scopes, scopes=["read", "write"])):
        return {"token": token}


serve.run(Api.bind(), route_prefix="/v1")
read = {"Authorization": "Bearer read"}
both = {"Authorization": "Bearer read+write"}
for path, options in (("/read", {}), ("/read", {"headers": read}), ("/write", {"headers": read}), ("/write", {"headers": both}),
                      ("/admin/basic", {}), ("/admin/basic", {"auth": ("ann", "pass")}), ("/admin/key", {}),
                      ("/admin/key", {"headers": {"x-key": "k"}})):
    r = client.get("/v1" + path, **options)
    print(path, r.status_code, r.headers.get("www-authenticate"), r.text)
serve.shutdown()
