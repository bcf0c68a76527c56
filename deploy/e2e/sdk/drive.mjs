// Sends requests through the OpenAI SDK, half of them streams, and prints what became of them as one
// JSON line: {"requests", "ok", "errors": {code: n}, "withoutReason"}.
// Arguments: base URL, API key, model, number of requests, concurrency.
import OpenAI from 'openai';

const [baseURL, apiKey, model, requests, concurrency] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const result = { requests: 0, ok: 0, errors: {}, withoutReason: 0 };
let next = 0;

async function one(i) {
  const messages = [{ role: 'user', content: `question ${i}: what is a gateway?` }];
  if (i % 2 === 0) {
    const answer = await client.chat.completions.create({ model, messages, max_tokens: 8 });
    if (!answer.choices[0].message.content) throw new Error('empty answer');
    if (!answer.metadata?.used_provider || !answer.metadata?.routing?.length) result.withoutReason++;
    return;
  }
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 8, stream: true });
  let text = '', finish = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  if (!text || !finish) throw new Error('stream without an end');
}

async function worker() {
  while (next < Number(requests)) {
    const i = next++;
    result.requests++;
    try {
      await one(i);
      result.ok++;
    } catch (e) {
      const code = e.code ?? e.error?.code ?? e.message;
      result.errors[code] = (result.errors[code] ?? 0) + 1;
    }
  }
}

await Promise.all(Array.from({ length: Number(concurrency) }, worker));
console.log(JSON.stringify(result));
