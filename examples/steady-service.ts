/**
 * Sessions over HTTP with Claude, another vendor's model where Claude cannot answer, and the tools of two MCP servers.
 * Without keys scripted models stand in: the first one is overloaded, and the second one uses both servers.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createOpenAI } from '@ai-sdk/openai';
import { agent, anthropic, mcpTools, open } from 'troupe';
import { aiModel } from 'troupe/ai-model';
import { serve } from 'troupe/server';
import { scripted } from 'troupe/testing';

const directory = process.env['DATA'] ?? './data';
const notes = join(directory, 'notes');
await mkdir(notes, { recursive: true });
await writeFile(join(notes, 'welcome.txt'), 'The minster of Ulm is 161.53 metres high.');

const openAi = createOpenAI();
const hasKeys = ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY'].every((name) => process.env[name] !== undefined);
const ulm = { name: 'Ulm', entityType: 'city', observations: ['has a minster'] };
const providers = hasKeys
  ? { claude: anthropic(), gpt: aiModel(openAi('gpt-5.5'), { providerOptions: { openai: { store: false } } }) }
  : {
      claude: scripted(() => ({ error: { status: 529, message: 'overloaded' } })),
      gpt: scripted([
        { toolUse: { name: 'files__read_text_file', input: { path: join(notes, 'welcome.txt') } } },
        { toolUse: { name: 'memory__create_entities', input: { entities: [ulm] } } },
        'I have read it, and I keep it in mind.',
      ]),
    };

// Both servers are packages beside this program; `npx -y <package>` works as well.
const server = (name: string, ...args: string[]): { readonly command: string; readonly args: string[] } => {
  const path = import.meta.resolve(`@modelcontextprotocol/server-${name}/dist/index.js`);
  return { command: process.execPath, args: [fileURLToPath(path), ...args] };
};
const runtime = await open(join(directory, 'store'), {
  providers,
  mcp: {
    files: server('filesystem', notes),
    memory: { ...server('memory'), env: { MEMORY_FILE_PATH: join(directory, 'memory.jsonl') } },
  },
  agents: [
    agent({
      name: 'guide',
      model: ['claude/claude-opus-5-5', 'gpt/gpt-5.5'],
      tools: [mcpTools('files', { only: ['read_text_file', 'list_directory'] }), mcpTools('memory')],
    }),
  ],
  settings: { llm: { retry: { attempts: 2, base: 0.1 } } },
});
const http = await serve(runtime, { port: Number(process.env['PORT'] ?? 0) });
console.log(http.url);
process.once('SIGTERM', () => void http.close().then(() => runtime.close({ deadlineMs: 5_000 })));
