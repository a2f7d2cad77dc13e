// node_http.mjs ADDRESS BODY: posts BODY to the model `add` by each of Node's HTTP clients, and reads a stream of events.
import assert from 'node:assert'
import http from 'node:http'
import http2 from 'node:http2'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

const [address, body] = process.argv.slice(2)
const path = '/v2/models/add/infer'
const check = (answer) => assert.deepEqual(JSON.parse(answer).outputs[0].data, [11, 22])

for (let i = 0; i < 3; i++) {
  const answer = await fetch(`http://${address}${path}`, { method: 'POST', body })
  assert.equal(answer.status, 200)
  check(await answer.text())
}
console.log('fetch ok')

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
for (let i = 0; i < 3; i++) {
  const request = http.request(`http://${address}${path}`, { method: 'POST', agent })
  request.end(body)
  const [answer] = await once(request, 'response')
  assert.equal(answer.statusCode, 200)
  check(await text(answer))
  assert.equal(request.reusedSocket, i > 0)
}
agent.destroy()
console.log('http ok')

const session = http2.connect(`http://${address}`)
await Promise.all([1, 2, 3].map(async () => {
  const stream = session.request({ ':method': 'POST', ':path': path })
  stream.end(body)
  const [head] = await once(stream, 'response')
  assert.equal(head[':status'], 200)
  check(await text(stream))
}))
session.close()
await once(session, 'close')
console.log('http2 ok')

const events = await fetch(`http://${address}/v2/models/count/generate_stream`, { method: 'POST', body: '{"n": 3}' })
assert.equal(events.headers.get('content-type').split(';')[0], 'text/event-stream')
const found = (await events.text()).match(/^data: .*$/gm).map((line) => JSON.parse(line.slice(6)).i)
assert.deepEqual(found, [0, 1, 2])
console.log('stream ok')
