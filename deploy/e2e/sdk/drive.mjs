// Sends requests with the OpenAI SDK, half of them streams, to the gateways in turn, and prints what
// became of each as a line of JSON; the fields are those of `answered` in sdk_test.go.
// Arguments: URLs and models (comma-separated lists), API key, first request, number of requests, concurrency.
import OpenAI from 'openai';

const [urls, apiKey, modelList, first, requests, concurrency] = process.argv.slice(2);
const clients = urls.split(',').map((url) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 }));
const models = modelList.split(',');
let next = 0;

async function plain(client, params) {
  const answer = await client.chat.completions.create(params);
  if (!answer.choices[0].message.content) throw new Error(`no answer in ${JSON.stringify(answer)}`);
  return answer.metadata;
}

async function streamed(client, params) {
  let text = '', finish = null, meta;
  for await (const chunk of await client.chat.completions.create({ ...params, stream: true })) {
    text += chunk.choices[0]?.delta?.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    meta = chunk.metadata ?? meta;
  }
  if (!text || !finish) throw Object.assign(new Error('the stream ended without a finish reason'), { cut: true });
  return meta;
}

// causes joins what stands behind an error: the SDK's own text is the same for all.
function causes(e) {
  const all = [];
  for (; e && all.length < 5; e = e.cause) {
    all.push(`${e.name} ${e.code ?? ''} ${e.message}${e.socket ? ` after ${e.socket.bytesRead} bytes read` : ''}`);
  }
  return `node: ${all.join(' <- ')}`;
}

function failure(e) {
  if (e.cut) return { status: 200, code: 'stream_cut' };
  if (e.status) return { status: e.status, code: e.code ?? 'none' };
  if (e.error) return { status: 200, code: `in_band: ${e.code ?? e.error.code}` };
  if (e instanceof OpenAI.APIConnectionError || e instanceof TypeError) return { status: 0, code: 'network_error', cause: causes(e) };
  return { status: 0, code: `${e.name}: ${e.message}` };
}

async function one(i) {
  const gateway = i % clients.length;
  const stream = Math.floor(i / clients.length) % 2 === 1;
  const params = {
    model: models[i % models.length], max_tokens: 8,
    messages: [{ role: 'user', content: `question ${i}: what is a gateway?` }],
  };
  const r = { gateway, stream, begun: Date.now(), status: 200, code: '', meta: {} };
  try {
    r.meta = await (stream ? streamed : plain)(clients[gateway], params) ?? {};
  } catch (e) {
    Object.assign(r, failure(e));
  }
  r.ended = Date.now();
  console.log(JSON.stringify(r));
  if (r.code === 'network_error') await new Promise((resolve) => setTimeout(resolve, 200));
}

async function worker() {
  while (next < Number(requests)) await one(Number(first) + next++);
}

await Promise.all(Array.from({ length: Number(concurrency) }, worker));
