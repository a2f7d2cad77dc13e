"""FastAPI: what a response model leaves out, renames, fills in."""

import os
from typing import Optional

import httpx
from fastapi import FastAPI
from pydantic import BaseModel, Field

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)
app = FastAPI()


class UserIn(BaseModel):
    name: str
    password: str
    age: Optional[int] = None
    tags: list[str] = []


class UserOut(BaseModel):
    name: str = Field(serialization_alias="userName")
    age: Optional[int] = None
    tags: list[str] = []


@serve.deployment
@serve.ingress(app)
class Users:
    def __init__(self):
        self.users = {}

    @app.post("/users", response_model=UserOut, status_code=201)
    def add(self, user: UserIn):
        self.users[user.name] = user
        return user

    @app.get("/users", response_model=list[UserOut], response_model_exclude_unset=True)
    async def all(self):
        return list(self.users.values())

    @app.get("/users/{name}", response_model=UserOut, response_model_include={"name", "tags"})
    def one(self, name: str):
        return self.users[name]

    @app.get("/annotated/{name}")
    def annotated(self, name: str) -> UserOut:
        return UserOut(name=name, age=3)


serve.run(Users.bind())
for body in ({"name": "ann", "password": "x"}, {"name": "bob", "password": "y", "age": 7, "tags": ["a"]}, {"name": "eve"},
             {"name": "joe", "password": "z", "age": "old"}):
    r = client.post("/users", json=body)
    print(r.status_code, r.text)
for path in ("/users", "/users/bob", "/annotated/ann", "/users/nobody"):
    r = client.get(path)
    print(path, r.status_code, r.headers.get("content-type"), r.text)
serve.shutdown()
