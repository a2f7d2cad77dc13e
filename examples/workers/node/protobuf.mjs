// What a worker needs of protobuf, without a library: ModelInferRequest is read, ModelInferResponse is written
// (proto/open_inference.proto). A field is a tag (number << 3 | type) and its value: a varint (type 0), or a length and
// so many bytes (type 2): text, bytes, a message, packed numbers.

const VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5;

function* fields(data) {
  let at = 0;
  const varint = () => {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      if (at >= data.length) throw new Error("malformed message");
      const byte = data[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
    }
  };
  const bytes = (n) => {
    if (n < 0 || at + n > data.length) throw new Error("malformed message");
    return data.subarray(at, (at += n));
  };
  while (at < data.length) {
    const tag = Number(varint());
    const type = tag & 7;
    if (type === VARINT) yield [tag >> 3, varint()];
    else if (type === BYTES) yield [tag >> 3, bytes(Number(varint()))];
    else if (type === FIXED32) bytes(4);
    else if (type === FIXED64) bytes(8);
    else throw new Error("malformed message");
  }
}

function readTensor(data) {
  const tensor = { name: "", datatype: "", shape: [] };
  for (const [number, value] of fields(data)) {
    if (number === 1) tensor.name = value.toString();
    else if (number === 2) tensor.datatype = value.toString();
    else if (number === 3 && typeof value === "bigint") tensor.shape.push(value);
    else if (number === 3) tensor.shape.push(...readNumbers(value));
  }
  return tensor;
}

function* readNumbers(data) {
  for (let value = 0n, shift = 0n, at = 0; at < data.length; at++) {
    value |= BigInt(data[at] & 127) << shift;
    shift += 7n;
    if (data[at] < 128) {
      yield BigInt.asIntN(64, value);
      value = shift = 0n;
    }
  }
}

// {model, id, inputs: [{name, datatype, shape: [bigint], data: Buffer}]}; the server always sends raw contents.
export function readRequest(data) {
  const request = { model: "", id: "", inputs: [] };
  const raw = [];
  for (const [number, value] of fields(data)) {
    if (number === 1) request.model = value.toString();
    else if (number === 3) request.id = value.toString();
    else if (number === 5) request.inputs.push(readTensor(value));
    else if (number === 7) raw.push(value);
  }
  request.inputs.forEach((tensor, i) => (tensor.data = raw[i]));
  return request;
}

function varint(value) {
  const bytes = [];
  for (value = BigInt.asUintN(64, BigInt(value)); value > 127n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
  return Buffer.from([...bytes, Number(value)]);
}

function field(number, value) {
  const data = Buffer.isBuffer(value) ? value : Buffer.from(value);
  return Buffer.concat([varint((number << 3) | BYTES), varint(data.length), data]);
}

// outputs as inputs above; parameters: {name: text}.
export function writeResponse({ model, id, parameters = {}, outputs = [] }) {
  const parts = [field(1, model), field(3, id)];
  for (const [name, text] of Object.entries(parameters))
    parts.push(field(4, Buffer.concat([field(1, name), field(2, field(3, text))])));
  for (const { name, datatype, shape } of outputs)
    parts.push(field(5, Buffer.concat([field(1, name), field(2, datatype), field(3, Buffer.concat(shape.map(varint)))])));
  for (const { data } of outputs) parts.push(field(6, data));
  return Buffer.concat(parts);
}
