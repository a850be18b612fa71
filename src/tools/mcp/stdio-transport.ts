/**
 * The process of an MCP server, and the messages on its standard input and output. The SDK's own transport signals only
 * one process, so a server that was started by a wrapper such as `npx` would survive. This transport ends whole process
 * groups.
 *
 * Owns: the process, its group, its pipes. Does not own: the protocol, starting the process again.
 *
 * T1 The process leads its own POSIX session, and `close` ends every process in that session: `close` ends the input,
 *    then sends TERM, then KILL.
 * T2 A watcher in the group waits for a pipe to close, and then kills the group. So the server ends with this thread
 *    and this process, even if they are killed.
 * T3 A message is at most `MCP_MESSAGE_BYTES_MAX` bytes. A server that exceeds this bound is ended.
 */
import { strict as assert } from 'node:assert';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type JSONRPCMessage, ReadBuffer, serializeMessage, type Transport } from '@modelcontextprotocol/client';
import {
  MCP_ERROR_OUTPUT_CHARACTERS,
  MCP_INPUT_END_MS,
  MCP_KILL_MS,
  MCP_MESSAGE_BYTES_MAX,
  SHELL_DRAIN_MS,
} from '../../base/bounds.ts';
import { asError } from '../../base/errors.ts';
import { withoutSecrets } from '../../base/secret-environment.ts';
import { settledInTime } from '../../threads/thread.ts';
import { endGroups } from '../built-in/process-groups.ts';
import { cleanText } from '../result-text.ts';
import type { McpProcess } from './protocol.ts';

/**
 * The variable that names the server of a process. It identifies processes that have left the server's POSIX session.
 */
const SERVER_ID = 'TROUPE_MCP_ID';
/**
 * Starts the watcher (T2), reports the watcher's process id, and then becomes the server. The watcher holds none of the
 * server's pipes. The watcher survives TERM, so that it can also kill a server that ignores TERM.
 */
const WATCH = "( trap '' TERM; read -r line <&3; kill -KILL 0 ) </dev/null >/dev/null 2>&1";
const START = `${WATCH} & echo $! >&3; exec 3<&-; exec "$@"`;

/** See the head of the file. */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /**
   * By the members `stderr` and `pid` the SDK recognises that the server is a process. If such a server does not answer
   * whether it speaks the newer era of the protocol, the SDK uses the older era.
   */
  readonly stderr = null;
  readonly #server: McpProcess;
  readonly #id: string = randomBytes(16).toString('hex');
  readonly #messages: ReadBuffer = new ReadBuffer({ maxBufferSize: MCP_MESSAGE_BYTES_MAX });
  #child: ChildProcess | undefined;
  #errorOutput = '';
  #how = 'it was closed';
  #watcher: number | undefined;
  /** The wait until the process has read what was written. */
  #draining: Promise<unknown> | undefined;
  #ending: Promise<void> | undefined;

  constructor(server: McpProcess) {
    this.#server = server;
  }

  /** The server's process id. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** How the process ended, with its last error output. */
  get end(): string {
    const output = cleanText(this.#errorOutput).trim();
    return output === '' ? this.#how : `${this.#how}: ${output}`;
  }

  /** Starts the process. Rejects with the system's error when the directory does not exist. */
  async start(): Promise<void> {
    const { command, args = [], env, cwd } = this.#server;
    const child = spawn('/bin/sh', ['-c', START, 'sh', command, ...args], {
      ...(cwd === undefined ? {} : { cwd }),
      env: { ...withoutSecrets(process.env, []), ...env, [SERVER_ID]: this.#id },
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    });
    await once(child, 'spawn');
    this.#child = child;
    child.on('error', (error) => this.onerror?.(error));
    child.once('exit', (code, signal) => {
      this.#how = signal === null ? `its process ended with exit code ${code}` : `its process was ended by ${signal}`;
    });
    // At the exit the last messages may still be in the pipe, and a process that the server left behind may hold the
    // pipe open. So the exit ends the whole group, and `#end` then reads to the end of the pipe.
    child.once('exit', () => void this.close());
    // Errors of these pipes mean that the server has ended. The `exit` event of the process reports that end.
    for (const pipe of child.stdio) pipe?.on('error', () => undefined);
    child.stdio[3]?.on('data', (pid: Buffer) => {
      this.#watcher = Number(pid.toString());
    });
    child.stdout?.on('data', (chunk: Buffer) => this.#receive(chunk));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errorOutput = (this.#errorOutput + text).slice(-MCP_ERROR_OUTPUT_CHARACTERS);
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const input = this.#child?.stdin;
    if (input === null || input === undefined || this.#ending !== undefined) throw new Error('Not connected');
    if (input.write(serializeMessage(message))) return;
    // The process may end before it has read everything. All messages share one wait.
    this.#draining ??= Promise.race([once(input, 'drain'), once(input, 'close')])
      .catch(() => undefined)
      .finally(() => {
        this.#draining = undefined;
      });
    await this.#draining;
  }

  /** Ends the process and its group (T1); resolves when no process is left. Never rejects. */
  close(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    const { pid, stdin, stdout } = child;
    assert(pid !== undefined, 'a started process has an id');
    const isRunning = (): boolean => child.exitCode === null && child.signalCode === null;
    stdin?.end();
    if (isRunning()) await settledInTime(once(child, 'exit'), MCP_INPUT_END_MS);
    await endGroups(pid, `${SERVER_ID}=${this.#id}`, MCP_KILL_MS, this.#watcher);
    if (isRunning()) await once(child, 'exit');
    // The last messages may still be in the pipe. The wait for the pipe's end is bounded, because a process that was
    // not found may hold the pipe open.
    if (stdout !== null && !stdout.closed) await settledInTime(once(stdout, 'close'), SHELL_DRAIN_MS);
    for (const pipe of child.stdio) pipe?.destroy();
    this.#messages.clear();
    this.onclose?.();
  }

  #receive(chunk: Buffer): void {
    try {
      this.#messages.append(chunk);
    } catch (error) {
      this.#how = `it sent a message of more than ${MCP_MESSAGE_BYTES_MAX} bytes`;
      this.onerror?.(asError(error));
      void this.close();
      return;
    }
    for (;;) {
      try {
        const message = this.#messages.readMessage();
        if (message === null) return;
        this.onmessage?.(message);
      } catch (error) {
        // The line is JSON but not a message, so it is skipped.
        this.onerror?.(asError(error));
      }
    }
  }
}
