/** Measures bytes on disk and bytes of payload, and takes a store out of the page cache. */
import { spawnSync } from 'node:child_process';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Message } from '../src/index.ts';

const BLOCK_BYTES = 512;

/** Bytes that the files of a directory occupy on the device: blocks, not lengths. */
export async function diskBytes(directory: string): Promise<number> {
  let bytes = 0;
  for (const file of await filesOf(directory)) bytes += (await stat(file)).blocks * BLOCK_BYTES;
  return bytes;
}

/**
 * Takes the files of a directory out of the page cache, and no others, so that other work on the machine is not
 * disturbed. Returns true if the cache has nothing left of them. Returns false if it has, or if the system cannot say.
 */
export async function evict(directory: string): Promise<boolean> {
  const files = await filesOf(directory);
  for (const file of files) {
    // A page that is not written yet cannot leave the cache.
    await syncFile(file);
    spawnSync('dd', [`if=${file}`, 'iflag=nocache', 'count=0', 'status=none']);
  }
  const { stdout, status } = spawnSync('fincore', ['--bytes', '--noheadings', '--output', 'RES', ...files], {
    encoding: 'utf8',
  });
  return status === 0 && stdout.split('\n').every((line) => Number(line) === 0);
}

/** Payload of a message: its UTF-8 bytes in the shape of the Messages API, as the hand-written loop stores it. */
export function payloadBytes(message: Message): number {
  return Buffer.byteLength(JSON.stringify(wireMessage(message)));
}

function wireMessage({ type, content, toolUseId, toolName, input }: Message): object {
  switch (type) {
    case 'tool_call':
      return { role: 'assistant', content: [{ type: 'tool_use', id: toolUseId, name: toolName, input }] };
    case 'tool_response':
      return { role: 'user', content: [{ type: 'tool_result', tool_use_id: toolUseId, content }] };
    case 'agent_message':
      return { role: 'assistant', content: typeof content === 'string' ? [{ type: 'text', text: content }] : content };
    case 'user_message':
    case 'system_message':
      return { role: 'user', content };
  }
}

async function filesOf(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
