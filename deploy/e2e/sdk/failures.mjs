// Sends one request for each failure with the OpenAI SDK and with the AI SDK, plain and streaming, and
// prints what each did with it as a line of JSON; the fields are those of `met` in failures_test.go.
// Arguments: URL, API key, failures (a comma-separated list). Models are named <client>-<failure>-<form>.
import OpenAI from 'openai';
import { generateText, streamText } from 'ai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

const [url, apiKey, failureList] = process.argv.slice(2);
const baseURL = `${url}/v1`;
const messages = [{ role: 'user', content: 'hello' }];
const clientTimeout = 1500; // of the failure "hang" alone

// counting wraps fetch so that requests are counted.
function counting() {
  const count = { requests: 0 };
  count.fetch = (...args) => {
    count.requests++;
    return fetch(...args);
  };
  return count;
}

const clients = {
  openai(key, failure, count) {
    const hang = failure === 'hang';
    const client = new OpenAI({ baseURL, apiKey: key, fetch: count.fetch, ...(hang ? { timeout: clientTimeout, maxRetries: 0 } : {}) });
    return {
      async plain(model) {
        const answer = await client.chat.completions.create({ model, messages });
        return { text: answer.choices[0].message.content, finish: answer.choices[0].finish_reason };
      },
      async stream(model, partial) {
        for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
          partial.text += chunk.choices[0]?.delta?.content ?? '';
          partial.finish = chunk.choices[0]?.finish_reason ?? partial.finish;
        }
        return partial;
      },
    };
  },
  ai(key, failure, count) {
    const provider = createOpenAICompatible({ name: 'turnout', baseURL, apiKey: key, fetch: count.fetch });
    const limits = () => (failure === 'hang' ? { maxRetries: 0, abortSignal: AbortSignal.timeout(clientTimeout) } : {});
    return {
      async plain(model) {
        const answer = await generateText({ model: provider(model), messages, ...limits() });
        return { text: answer.text, finish: answer.finishReason };
      },
      // Its streams do not throw: an error is a part of the stream, and so is giving up.
      async stream(model, partial) {
        const result = streamText({ model: provider(model), messages, ...limits(), onError: () => {} });
        for await (const part of result.fullStream) {
          if (part.type === 'error') throw part.error;
          if (part.type === 'abort') throw new Error('aborted');
          if (part.type === 'text-delta') partial.text += part.text;
          if (part.type === 'finish') partial.finish = part.finishReason;
        }
        return partial;
      },
    };
  },
};

// last is the error of the last try, where several were made.
const last = (e) => e?.lastError ?? e;

async function one(name, failure, form) {
  const count = counting();
  const key = failure === 'key' ? 'to-nobody' : apiKey;
  const partial = { text: '', finish: '' };
  const r = { client: name, failure, form, raised: false, error: '', status: 0 };
  const began = Date.now();
  try {
    const got = await clients[name](key, failure, count)[form](`${name}-${failure}-${form}`, partial);
    Object.assign(partial, got);
  } catch (thrown) {
    const e = last(thrown);
    r.raised = true;
    r.error = `${e?.name ?? typeof e}: ${e?.message ?? JSON.stringify(e)}`;
    r.status = e?.status ?? e?.statusCode ?? 0;
  }
  console.log(JSON.stringify({ ...r, text: partial.text ?? '', finish: partial.finish ?? '', requests: count.requests, ms: Date.now() - began }));
}

const runs = [];
for (const name of Object.keys(clients)) {
  for (const failure of failureList.split(',')) {
    for (const form of ['plain', 'stream']) runs.push(one(name, failure, form));
  }
}
await Promise.all(runs);
