// Drives a gateway with the clients people use: plain, stream, tools, structured output, image, error
// and abort, each against a model of every provider.
//
//   node drive.mjs URL TOKEN PROVIDER...
//
// Providers serve the model m and answer as the Go test that starts this scripts them. Prints one line
// a check and exits with 1 if one failed.
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { generateText, streamText, Output, tool } from 'ai';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { z } from 'zod';

const [url, token, ...providers] = process.argv.slice(2);
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
let failed = 0;

async function check(name, run) {
  try {
    await run();
    console.log('ok', name);
  } catch (e) {
    failed++;
    console.log('FAILED', name, e?.stack ?? e);
  }
}

// aborted says whether a call ends by the client's own doing.
async function aborted(run) {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(run(controller.signal), (e) => /abort/i.test(e.name + e.message));
}

async function openaiSDK(p) {
  const client = new OpenAI({ baseURL: url + '/v1', apiKey: token, maxRetries: 0 });
  const model = p + ':m';
  const messages = [{ role: 'user', content: 'Hello' }];
  const tools = [{ type: 'function', function: { name: 'weather', parameters: city } }];
  await check(`openai ${p} chat`, async () => {
    const c = await client.chat.completions.create({ model, messages });
    assert.equal(c.choices[0].message.content, 'hello from ' + p);
    assert.equal(c.usage.completion_tokens, 5);
  });
  await check(`openai ${p} chat stream`, async () => {
    const c = await client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } }).finalChatCompletion();
    assert.equal(c.choices[0].message.content, 'hello from ' + p);
    assert.equal(c.usage.completion_tokens, 5);
  });
  await check(`openai ${p} chat tools`, async () => {
    const c = await client.chat.completions.stream({ model, messages, tools }).finalChatCompletion();
    const call = c.choices[0].message.tool_calls[0];
    assert.deepEqual([call.function.name, JSON.parse(call.function.arguments), c.choices[0].finish_reason], ['weather', { city: 'Brno' }, 'tool_calls']);
    const next = [...messages, c.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'sunny' }];
    await client.chat.completions.create({ model, messages: next, tools });
  });
  await check(`openai ${p} chat schema`, async () => {
    const format = { type: 'json_schema', json_schema: { name: 'place', schema: city, strict: true } };
    const c = await client.chat.completions.parse({ model, messages, response_format: format });
    assert.deepEqual(JSON.parse(c.choices[0].message.content), { city: 'Brno' });
  });
  await check(`openai ${p} chat image`, async () => {
    const content = [{ type: 'text', text: 'What?' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,' + png } }];
    const c = await client.chat.completions.create({ model, messages: [{ role: 'user', content }] });
    assert.equal(c.choices[0].message.content, 'a picture');
  });
  await check(`openai ${p} responses`, async () => {
    const r = await client.responses.create({ model, input: 'Hello', store: false });
    assert.equal(r.output_text, 'hello from ' + p);
  });
  await check(`openai ${p} responses stream with tools`, async () => {
    const s = client.responses.stream({ model, input: 'Hello', store: false, tools: [{ type: 'function', name: 'weather', parameters: city, strict: true }] });
    const r = await s.finalResponse();
    assert.deepEqual([r.output[0].name, JSON.parse(r.output[0].arguments)], ['weather', { city: 'Brno' }]);
  });
  await check(`openai ${p} error`, () =>
    assert.rejects(client.chat.completions.create({ model: p + ':none', messages }), (e) => e.status === 400 && e.code === 'model_not_found'));
  await check(`openai ${p} abort`, () =>
    aborted((signal) => client.chat.completions.create({ model, messages: [{ role: 'user', content: 'wait' }] }, { signal })));
}

async function anthropicSDK(p) {
  const client = new Anthropic({ baseURL: url, authToken: token, apiKey: null, maxRetries: 0 });
  const ask = { model: p + ':m', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] };
  const tools = [{ name: 'weather', input_schema: city }];
  await check(`anthropic ${p} plain`, async () => {
    const m = await client.messages.create(ask);
    assert.deepEqual([m.content[0].text, m.stop_reason, m.usage.output_tokens], ['hello from ' + p, 'end_turn', 5]);
  });
  await check(`anthropic ${p} stream`, async () => {
    const m = await client.messages.stream(ask).finalMessage();
    assert.deepEqual([m.content[0].text, m.stop_reason, m.usage.output_tokens], ['hello from ' + p, 'end_turn', 5]);
  });
  await check(`anthropic ${p} tools`, async () => {
    const m = await client.messages.stream({ ...ask, tools }).finalMessage();
    assert.deepEqual([m.content[0].name, m.content[0].input, m.stop_reason], ['weather', { city: 'Brno' }, 'tool_use']);
    const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: m.content[0].id, content: 'sunny' }] };
    await client.messages.create({ ...ask, tools, messages: [...ask.messages, { role: 'assistant', content: m.content }, result] });
  });
  await check(`anthropic ${p} schema`, async () => {
    const m = await client.messages.create({ ...ask, output_config: { format: { type: 'json_schema', schema: city } } });
    assert.deepEqual(JSON.parse(m.content[0].text), { city: 'Brno' });
  });
  await check(`anthropic ${p} image`, async () => {
    const content = [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } }, { type: 'text', text: 'What?' }];
    const m = await client.messages.create({ ...ask, messages: [{ role: 'user', content }] });
    assert.equal(m.content[0].text, 'a picture');
  });
  await check(`anthropic ${p} count`, async () => {
    const c = await client.messages.countTokens({ model: ask.model, messages: ask.messages });
    assert.equal(c.input_tokens, 1);
  });
  await check(`anthropic ${p} error`, () =>
    assert.rejects(client.messages.create({ ...ask, model: p + ':none' }), (e) => e instanceof Anthropic.BadRequestError && e.error.error.type === 'invalid_request_error'));
  await check(`anthropic ${p} abort`, () =>
    aborted((signal) => client.messages.create({ ...ask, messages: [{ role: 'user', content: 'wait' }] }, { signal })));
}

async function aiSDK(p) {
  const compatible = createOpenAICompatible({ name: 'turnout', baseURL: url + '/v1', apiKey: token, supportsStructuredOutputs: true });
  const openai = createOpenAI({ baseURL: url + '/v1', apiKey: token });
  const anthropic = createAnthropic({ baseURL: url + '/v1', apiKey: token });
  const id = p + ':m';
  const models = { compatible: compatible(id), 'openai-chat': openai.chat(id), 'openai-responses': openai.responses(id), anthropic: anthropic(id) };
  const openaiOptions = { openai: { store: false } };
  for (const [name, model] of Object.entries(models)) {
    const ask = { model, prompt: 'Hello', maxRetries: 0, maxOutputTokens: 100, providerOptions: name === 'openai-responses' ? openaiOptions : {} };
    await check(`ai ${name} ${p} plain`, async () => {
      const r = await generateText(ask);
      assert.equal(r.text, 'hello from ' + p);
    });
    await check(`ai ${name} ${p} stream`, async () => {
      const r = streamText({ ...ask, onError: () => {} });
      let text = '';
      for await (const piece of r.textStream) text += piece;
      assert.deepEqual([text, await r.finishReason], ['hello from ' + p, 'stop']);
    });
    await check(`ai ${name} ${p} tools`, async () => {
      const r = await generateText({ ...ask, tools: { weather: tool({ inputSchema: z.object({ city: z.string() }) }) } });
      assert.deepEqual([r.toolCalls[0].toolName, r.toolCalls[0].input], ['weather', { city: 'Brno' }]);
    });
    await check(`ai ${name} ${p} stream of tools`, async () => {
      const r = streamText({ ...ask, onError: () => {}, tools: { weather: tool({ inputSchema: z.object({ city: z.string() }) }) } });
      await r.consumeStream();
      assert.deepEqual((await r.toolCalls)[0].input, { city: 'Brno' });
    });
    await check(`ai ${name} ${p} image`, async () => {
      const content = [{ type: 'text', text: 'What?' }, { type: 'image', image: Buffer.from(png, 'base64') }];
      const r = await generateText({ ...ask, prompt: undefined, messages: [{ role: 'user', content }] });
      assert.equal(r.text, 'a picture');
    });
    if (name !== 'anthropic') {
      // It asks for structured output of models it knows by name only.
      await check(`ai ${name} ${p} schema`, async () => {
        const r = await generateText({ ...ask, output: Output.object({ schema: z.object({ city: z.string() }) }) });
        assert.deepEqual(r.output, { city: 'Brno' });
      });
    }
    await check(`ai ${name} ${p} abort`, () => aborted((abortSignal) => generateText({ ...ask, prompt: 'wait', abortSignal })));
  }
}

for (const p of providers) {
  await openaiSDK(p);
  await anthropicSDK(p);
  await aiSDK(p);
}
console.log(failed ? `${failed} failed` : 'all well');
process.exit(failed ? 1 : 0);
