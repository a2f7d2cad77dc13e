"""(c) The body comes back, by FastAPI: what uvicorn and Granian serve in process."""

from fastapi import FastAPI, Request, Response

app = FastAPI()


@app.post("/")
async def echo(request: Request):
    return Response(await request.body(), media_type="application/octet-stream")
