// node_grpc.cjs ADDRESS PROTO-FILE FOLDER: calls ModelInfer with the grpc-js that is installed in FOLDER.
const assert = require('node:assert')
const { createRequire } = require('node:module')
const { promisify } = require('node:util')

const [address, proto, folder] = process.argv.slice(2)
const from = createRequire(`${folder}/`)
const grpc = from('@grpc/grpc-js')
const loader = from('@grpc/proto-loader')

async function main () {
  const { inference } = grpc.loadPackageDefinition(loader.loadSync(proto, { keepCase: true, longs: Number }))
  const client = new inference.GRPCInferenceService(address, grpc.credentials.createInsecure())
  const infer = promisify(client.ModelInfer.bind(client))
  const x = Buffer.from(new Float32Array([1, 2, 3]).buffer)
  const request = {
    model_name: 'echo',
    inputs: [{ name: 'x', datatype: 'FP32', shape: [3] }],
    raw_input_contents: [x]
  }
  await Promise.all(Array.from({ length: 20 }, async () => {
    const answer = await infer(request)
    assert.deepEqual(answer.raw_output_contents[0], x)
  }))
  console.log('infer ok')
  await assert.rejects(infer({ ...request, model_name: 'none' }), { code: grpc.status.NOT_FOUND })
  console.log('error ok')
  assert.equal((await promisify(client.ServerReady.bind(client))({})).ready, true)
  console.log('health ok')
  client.close()
}

main()
