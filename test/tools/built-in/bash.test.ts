// Goal: bash follows the contract (§5.6, §11.2, Δ15) with real shells. The tests first run bash directly, below the
// tool boundary, where the partial output of an interrupted command is still reported. Then they run it by value in a
// runtime with session threads.
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest';
import { SHELL_OUTPUT_BYTES_MAX } from '../../../src/base/bounds.ts';
import { ConfigError, TimeoutError } from '../../../src/base/errors.ts';
import { agent, INTERRUPT_NOTICE, open, type Runtime } from '../../../src/index.ts';
import { outcomeUnknown } from '../../../src/session/rules/tool-texts.ts';
import { scripted } from '../../../src/testing/index.ts';
import { type BashInput, type BashOptions, type BashTool, bash, bashTool } from '../../../src/tools/built-in/index.ts';
import { advertiseTool, describeTool } from '../../../src/tools/tool-schema.ts';
import { executeTool } from '../../support/execute-tool.ts';

const base = realpathSync(mkdtempSync(join(tmpdir(), 'troupe-bash-')));
const other = join(base, 'other');
mkdirSync(other);
const made: BashTool[] = [];
function make(options: BashOptions = {}): BashTool {
  const tool = bashTool({ cwd: base, ...options });
  made.push(tool);
  return tool;
}
afterEach(async () => {
  await Promise.all(made.splice(0).map((tool) => tool.close()));
});
afterAll(async () => {
  await bash.close();
  rmSync(base, { recursive: true, force: true });
});

/** The calls of one session, with the output they have printed so far. */
class Caller {
  readonly controller = new AbortController();
  readonly tool: BashTool;
  readonly session: string;
  timeoutMs = 20_000;
  #printed = '';
  #waiter: (() => void) | undefined;
  constructor(tool: BashTool, session = 's') {
    this.tool = tool;
    this.session = session;
  }

  async call(input: BashInput): Promise<unknown> {
    return await this.tool.run(input, {
      signal: this.controller.signal,
      session: this.session,
      callId: 'c',
      attempt: 1,
      key: 'k',
      timeoutMs: this.timeoutMs,
      progress: (data) => {
        this.#printed = (data as { output: string }).output;
        this.#waiter?.();
      },
    });
  }

  async sh(command: string): Promise<string> {
    const result = await this.call({ command });
    return typeof result === 'string' ? result : `error: ${(result as { error: string }).error}`;
  }

  /** Resolves with the output of the running command once it holds the text. */
  async printed(text: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = text.exec(this.#printed);
      if (match !== null) return match;
      await new Promise<void>((resolve) => {
        this.#waiter = resolve;
      });
    }
  }
}

/**
 * Resolves when the process is gone, because the shell answers after sending the signal and does not wait for the
 * death.
 */
const isGone = (pid: number): Promise<void> => expect.poll(() => isAlive(pid)).toBe(false);
const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0) && !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
};
/** A command that prints its process id and then sleeps in the foreground. */
const SLEEP = `sh -c 'echo pid=$$; exec sleep 60'`;

describe.each([undefined, 'sh'])('F146: bash with shell %s', (shell) => {
  const options: BashOptions = shell === undefined ? {} : { shell };

  test('F146: directory, variables and functions persist between calls', async () => {
    const { sh } = bind(new Caller(make(options)));
    expect(await sh('pwd')).toBe(base);
    expect(await sh('cd other; NAME=value; greet() { echo "hello $1"; }')).toBe('OK');
    expect(await sh('pwd; echo $NAME; greet you')).toBe(`${other}\nvalue\nhello you`);
  });

  test('F146: standard output and error output are one stream, in order; without output the result is OK', async () => {
    const { sh } = bind(new Caller(make(options)));
    expect(await sh('echo 1; echo 2 >&2; echo 3; echo 4 >&2')).toBe('1\n2\n3\n4');
    expect(await sh('printf "no newline"')).toBe('no newline');
    expect(await sh('true')).toBe('OK');
    expect(await sh('echo')).toBe('OK');
    expect(await sh('printf "a\\n\\n\\n"')).toBe('a');
  });

  test('F146: an exit code other than 0 follows the output; neither the shell nor the next command is affected', async () => {
    const { sh } = bind(new Caller(make(options)));
    expect(await sh('false')).toBe('[exit code 1]');
    expect(await sh('echo seen; (exit 42)')).toBe('seen\n\n[exit code 42]');
    expect(await sh('sh -c "kill -TERM \\$\\$" 2>/dev/null')).toMatch(/\[exit code 143\]$/);
    expect(await sh('false; true')).toBe('OK');
    expect(await sh('echo fine')).toBe('fine');
    expect(await sh('echo "a:b:c"; cd other; false')).toBe('a:b:c\n\n[exit code 1]');
    expect(await sh('pwd')).toBe(other);
  });

  test('F146: quotes, here-documents, comments, broken syntax and empty input do not confuse the shell', async () => {
    const { sh } = bind(new Caller(make(options)));
    expect(await sh(`echo 'it'"'"'s' "$((1 + 2))" \\\\ ! # comment`)).toBe("it's 3 \\ !");
    expect(await sh('cat <<END\none\n\ttwo\nEND\necho three')).toBe('one\n\ttwo\nthree');
    expect(await sh('if true; then')).toMatch(/syntax error/i);
    expect(await sh('cat')).toBe('OK');
    expect(await sh('read line; echo "[$line]"')).toBe('[]');
    expect(await sh('exec >/dev/null 2>&1; echo gone')).toBe('OK');
    expect(await sh('PS1="prompt> "; PS2="more> "')).toBe('OK');
    expect(await sh('echo "a\nb"')).toBe('a\nb');
  });

  test('F146: an interrupt stops the command line, and the shell keeps its variables', async () => {
    const caller = new Caller(make(options));
    await caller.sh('KEPT=yes; cd other');
    const interrupted = caller.sh(`${SLEEP}; echo never`);
    const [, pid] = await caller.printed(/pid=(\d+)/);
    caller.controller.abort(new Error('stop'));
    expect(await interrupted).toBe(`${INTERRUPT_NOTICE}\n\nPartial output:\npid=${pid}`);
    const again = new Caller(caller.tool);
    expect(await again.sh('echo $KEPT; pwd')).toBe(`yes\n${other}`);
    await isGone(Number(pid));
  });

  test('Δ15: a shell that exits is replaced in the same directory, and the results say so', async () => {
    const { sh } = bind(new Caller(make(options)));
    await sh('cd other; LOST=yes');
    expect(await sh('echo last; exit 3')).toMatch(/^last\n[\s\S]*\[The shell ended \(exit code 3\)\./);
    expect(await sh('pwd; echo "[$LOST]"')).toMatch(
      new RegExp(`^\\[A new shell: the earlier one ended \\(exit code 3\\).*\\]\n\n${other}\n\\[\\]$`),
    );
    expect(await sh('echo quiet')).toBe('quiet');
  });
});

/** `sh` without its object. */
function bind(caller: Caller): { readonly sh: (command: string) => Promise<string> } {
  return { sh: (command) => caller.sh(command) };
}

describe('F146: calls', () => {
  test('F146: parallel calls of one session run in call order, beside those of other sessions', async () => {
    const tool = make();
    const [one, two] = [new Caller(tool, 'one'), new Caller(tool, 'two')];
    const blocked = one.sh('mkfifo gate; echo ready; read line <gate; N=1; echo first');
    await one.printed(/ready/);
    const behind = [one.sh('echo $N; N=2'), one.sh('echo $N')];
    // Only the other session's shell can open the gate.
    expect(await two.sh('echo go >gate; echo "[$N]"')).toBe('[]');
    expect(await Promise.all([blocked, ...behind])).toEqual(['ready\nfirst', '1', '2']);
  });

  test('F146: a batch has headers, continues after errors, and skips blank commands', async () => {
    const caller = new Caller(make());
    const result = await caller.call({ commands: ['cd other', 'false', 'no-such-command', '  ', 'exit 4', 'pwd'] });
    expect(String(result).split('\n\n')).toEqual([
      '[1/6] $ cd other\nOK',
      '[2/6] $ false\n[exit code 1]',
      expect.stringMatching(/^\[3\/6\] \$ no-such-command\n.*not found$/),
      '[exit code 127]',
      '[4/6] $ (blank)\n(skipped: blank command)',
      expect.stringMatching(/^\[5\/6\] \$ exit 4\n/),
      expect.stringMatching(/ended \(exit code 4\)/),
      expect.stringMatching(/^\[6\/6\] \$ pwd\n\[A new shell/),
      other,
    ]);
  });

  test.each([
    [{ command: 'ls', commands: ['ls'] }, 'not both'],
    [{}, 'required'],
    [{ command: ' \n' }, 'blank'],
    [{ commands: [] }, 'empty'],
    [{ commands: 'ls' } as unknown as BashInput, 'empty'],
    [{ command: 'a\0b' }, 'NUL'],
  ])('F146: %j is refused', async (input, text) => {
    expect(await new Caller(make()).call(input)).toEqual({ error: expect.stringContaining(text) });
  });

  test('F146: a timeout result starts with the notice, has the partial output, and the shell stays usable', async () => {
    const caller = new Caller(make());
    await caller.sh('KEPT=yes');
    caller.timeoutMs = 2_400;
    const late = await caller.sh('echo before; sleep 60');
    expect(late).toBe('error: The command timed out after 2.4 seconds.\n\nPartial output:\nbefore');
    caller.timeoutMs = 20_000;
    expect(await caller.sh('echo $KEPT')).toBe('yes');
  });

  test('F146: at the tool boundary the tool itself reports the timeout, in time, for all commands of a batch', async () => {
    const tool = make();
    const run = (input: object, timeoutMs: number) =>
      executeTool(tool, {
        input,
        context: { session: 's', callId: 'c', key: 'k', attempt: 1 },
        timeoutMs,
        mode: 'run',
      });
    await run({ command: 'true' }, 20_000);
    const one = await run({ command: 'echo before; sleep 60', timeout: 1 }, 2_400);
    expect(one.success).toBe(false);
    expect(JSON.parse(one.content)).toEqual({
      error: expect.stringMatching(/^The command timed out.*\n\n.*\nbefore$/),
    });
    const batch = await run({ commands: ['echo one', 'sleep 60', 'echo three'] }, 2_400);
    expect(batch.content).toMatch(
      /one\n\n\[2\/3\] \$ sleep 60\n.*timed out.*\n\n\[3\/3\] .*\n\(skipped: .*timed out\)$/,
    );
  });

  test('F146: a call that spent its whole time waiting for another call is not run', async () => {
    const tool = make();
    const [front, back] = [new Caller(tool), new Caller(tool)];
    back.timeoutMs = 400;
    const first = front.sh(SLEEP);
    await front.printed(/pid/);
    expect(await back.sh('touch never')).toMatch(/^error: .*timed out.*not run/);
    front.controller.abort();
    await first;
    expect(await new Caller(tool).sh('ls never')).toMatch(/No such file/);
  });

  test('F146: output beyond the bound keeps both ends, and fits the bound with its notice', async () => {
    const caller = new Caller(make());
    const text = await caller.sh('echo first; head -c 30000000 /dev/zero | tr "\\0" "é"; echo; echo last');
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(SHELL_OUTPUT_BYTES_MAX);
    expect(text).toMatch(/^first\n[\s\S]*\[… output cut: 300000\d\d bytes in all …\][\s\S]*\nlast$/);
    const batch = await caller.call({ commands: ['seq 100000', 'echo small', 'seq 100000'] });
    expect(Buffer.byteLength(String(batch))).toBeLessThanOrEqual(SHELL_OUTPUT_BYTES_MAX);
    expect(batch).toMatch(/\n100000\n\n\[2\/3\] \$ echo small\nsmall\n\n\[3\/3\][\s\S]*\n100000$/);
  });

  test('F146: terminal escapes, and text that a carriage return overwrote, are not in the result', async () => {
    const { sh } = bind(new Caller(make()));
    expect(await sh(`printf '\\033[31mred\\033[0m\\r\\n10%%\\r100%%\\nlonger\\rab\\nlonger\\r\\033[Kab\\n'`)).toBe(
      'red\n100%\nabnger\nab',
    );
    expect(await sh(`printf 'a\\377b'`)).toBe('a\uFFFDb');
  });

  test('F146: a background job stays, and its later output is in the result of a later command', async () => {
    const { sh } = bind(new Caller(make()));
    await sh('mkfifo door');
    expect(await sh('{ read line <door; echo job: $line; touch done; } & echo $! >job')).toMatch(/^\[1\] \d+$/);
    await sh('echo open >door; wait');
    const later = await sh('ls done');
    expect(later).toContain('done');
    expect(await sh('jobs -r')).toBe('OK');
  });

  test('F146: no program prompts or starts a pager; the credentials of the provider are not passed on', async () => {
    const before = process.env['ANTHROPIC_API_KEY'];
    process.env['ANTHROPIC_API_KEY'] = 'sk-secret';
    try {
      const { sh } = bind(new Caller(make({ env: { OWN: 'mine' } })));
      expect(await sh('echo $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT $OWN "[$ANTHROPIC_API_KEY]"')).toBe(
        'cat cat 0 mine []',
      );
      expect(await sh('{ : </dev/tty; } 2>/dev/null || echo no terminal')).toBe('no terminal');
    } finally {
      if (before === undefined) delete process.env['ANTHROPIC_API_KEY'];
      else process.env['ANTHROPIC_API_KEY'] = before;
    }
  });

  test('F70: a variable that looks like a secret is passed on only if it is named', async () => {
    for (const name of ['TROUPE_TOKEN', 'X_API_KEY', 'x_password', 'X_PLAIN']) vi.stubEnv(name, 'here');
    try {
      const show = 'echo "[$TROUPE_TOKEN] [$X_API_KEY] [$x_password] [$X_PLAIN]"; env | grep -c =here';
      expect(await new Caller(make()).sh(show)).toBe('[] [] [] [here]\n1');
      expect(await new Caller(make({ secretEnv: ['X_API_KEY'] })).sh(show)).toBe('[] [here] [] [here]\n2');
      expect(() => bashTool({ secretEnv: ['A=B'] })).toThrow(/secretEnv/);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test('Δ40: the schema states the real default; a bad option is refused, and the error names it', () => {
    const description = describeTool(bash);
    expect(description).toMatchObject({ name: 'bash', effect: 'once', adjustableTimeout: true, timeoutMs: 30_000 });
    expect(advertiseTool(description, 180_000).input_schema).toMatchObject({
      properties: { timeout: { description: 'Seconds (default: 30)' } },
    });
    expect(() => bashTool({ shel: 'zsh' } as BashOptions)).toThrow(ConfigError);
    expect(() => bashTool({ idleMs: 0 })).toThrow(/idleMs/);
  });

  test('a missing shell or directory gives an error text', async () => {
    expect(await new Caller(make({ shell: 'no-such-shell' })).sh('ls')).toMatch(
      /^error: no shell can be started.*ENOENT/,
    );
    expect(await new Caller(make({ cwd: join(base, 'nowhere') })).sh('ls')).toMatch(/^error: no shell can be started/);
  });
});

describe('interrupts', () => {
  test('F071: the running command is interrupted; notice and partial output are the result', async () => {
    const caller = new Caller(make());
    const result = caller.call({ command: `echo part; ${SLEEP}` });
    const [, pid] = await caller.printed(/pid=(\d+)/);
    caller.controller.abort(new Error('stop'));
    expect(await result).toBe(`${INTERRUPT_NOTICE}\n\nPartial output:\npart\npid=${pid}`);
    await isGone(Number(pid));
  });

  test('F071: without output the notice is the whole result; a call that has not begun is not run', async () => {
    const tool = make();
    const [first, second] = [new Caller(tool), new Caller(tool)];
    const running = first.sh('mkfifo silent; echo go >silent; sleep 60');
    await new Caller(tool, 'other').sh('until test -p silent; do :; done; read line <silent');
    const waiting = second.sh('touch second');
    second.controller.abort(new Error('stop'));
    expect(await waiting).toBe(INTERRUPT_NOTICE);
    first.controller.abort(new Error('stop'));
    expect(await running).toBe(INTERRUPT_NOTICE);
    expect(await new Caller(tool).sh('ls second')).toMatch(/No such file/);
  });

  test('F071: a loop, a pipeline, and a command in another process group are interrupted, and the shell stays', async () => {
    const tool = make();
    await new Caller(tool).sh('KEPT=yes');
    for (const line of [
      `while :; do ${SLEEP}; done`,
      'echo pid=$$; while :; do :; done',
      `${SLEEP} | cat`,
      `timeout 50 ${SLEEP}`,
    ]) {
      const caller = new Caller(tool);
      const result = caller.sh(line);
      const [, pid] = await caller.printed(/pid=(\d+)/);
      caller.controller.abort(new Error('stop'));
      expect(await result).toBe(`${INTERRUPT_NOTICE}\n\nPartial output:\npid=${pid}`);
      expect(await new Caller(tool).sh('echo $KEPT')).toBe('yes');
      if (!line.includes('$$; while')) await isGone(Number(pid));
    }
  });

  test('F071: a command that ignores Ctrl-C costs its shell, and both results say so', async () => {
    const caller = new Caller(make());
    await caller.sh('cd other');
    const result = caller.sh('trap "" INT; echo pid=$$; while :; do :; done');
    const [, pid] = await caller.printed(/pid=(\d+)/);
    caller.controller.abort(new Error('stop'));
    expect(await result).toMatch(/did not stop: its shell was killed[\s\S]*Partial output:\npid=\d+$/);
    const again = new Caller(caller.tool);
    expect(await again.sh('pwd')).toMatch(new RegExp(`^\\[A new shell: .*did not stop.*\\]\n\n${other}$`));
    await caller.tool.close();
    await isGone(Number(pid));
  });

  test('F072: in a batch the remaining commands are listed as skipped', async () => {
    const caller = new Caller(make());
    const result = caller.call({ commands: ['echo one', SLEEP, 'touch three', ' ', 'touch five'] });
    const [, pid] = await caller.printed(/pid=(\d+)/);
    caller.controller.abort(new Error('stop'));
    expect(String(await result).split('\n\n')).toEqual([
      '[1/5] $ echo one\none',
      `[2/5] $ ${SLEEP}\n${INTERRUPT_NOTICE}`,
      `Partial output:\npid=${pid}`,
      '[3/5] $ touch three\n(skipped: interrupted)',
      '[4/5] $ (blank)\n(skipped: blank command)',
      '[5/5] $ touch five\n(skipped: interrupted)',
    ]);
    expect(await new Caller(caller.tool).sh('ls three five')).toMatch(/three.*\n.*five/);
  });

  test('F071: the reason of an abort distinguishes a timeout from an interrupt', async () => {
    const caller = new Caller(make());
    const result = caller.sh(SLEEP);
    await caller.printed(/pid=/);
    caller.controller.abort(new TimeoutError('time is up'));
    expect(await result).toMatch(/^error: The command timed out after 20 seconds\.\n\nPartial output:\npid=/);
  });
});

describe('F121: a child session', () => {
  test('F121: its shell starts in the current directory of its parent’s shell', async () => {
    const tool = make();
    expect(await new Caller(tool, 'p:1').sh('pwd')).toBe(base);
    await new Caller(tool, 'p').sh('cd other');
    expect(await new Caller(tool, 'p:2').sh('pwd')).toBe(other);
    expect(await new Caller(tool, 'p:3:1').sh('pwd; cd /')).toBe(other);
    // Parent and child have separate shells: a change of directory in one does not move the other.
    expect(await new Caller(tool, 'p').sh('pwd')).toBe(other);
    expect(await new Caller(tool, 'p:1').sh('pwd')).toBe(base);
  });

  test.skipIf(process.platform !== 'linux')(
    'F121: it starts there also while a command of the parent runs',
    async () => {
      const tool = make();
      const parent = new Caller(tool, 'p');
      const running = parent.sh(`cd other; ${SLEEP}`);
      await parent.printed(/pid=/);
      expect(await new Caller(tool, 'p:1').sh('pwd')).toBe(other);
      parent.controller.abort();
      await running;
    },
  );

  test('F121: if that directory is gone, the configured one is used', async () => {
    const tool = make();
    await new Caller(tool, 'p').sh('mkdir gone; cd gone; rmdir ../gone');
    expect(await new Caller(tool, 'p:1').sh('pwd')).toBe(base);
  });
});

describe('in a runtime with session threads', () => {
  let opened: Runtime | undefined;
  const runtimeOf = async (replies: Parameters<typeof scripted>[0]): Promise<Runtime> => {
    opened = await open(':memory:', {
      provider: scripted(replies),
      agents: [agent({ name: 'worker', tools: [bash] })],
    });
    return opened;
  };
  afterEach(async () => {
    await opened?.close();
    opened = undefined;
  });
  const call = (command: string) => ({ toolUse: { name: 'bash', input: { command } } });

  test('F146: calls of the model in different turns use one shell', async () => {
    const runtime = await runtimeOf([call('cd /tmp && pwd'), 'first', call('pwd'), 'second']);
    const session = runtime.session('turns');
    expect(await session.ask('go')).toBe('first');
    expect(await session.ask('again')).toBe('second');
    const results = (await session.messages()).filter((message) => message.type === 'tool_response');
    expect(results.map(({ content, success }) => [content, success])).toEqual([
      ['/tmp', true],
      ['/tmp', true],
    ]);
  });

  test('F071: an interrupt answers the call with the notice, and ends the command', async () => {
    const runtime = await runtimeOf([call(SLEEP), call('echo back'), 'done']);
    const session = runtime.session('interrupted');
    // The reader starts before the message, because progress is published once, and a later reader does not receive it.
    const events = session.events();
    const receipt = await session.send('go');
    let pid = 0;
    for await (const event of events) {
      const printed = event.type === 'tool.progress' ? /pid=(\d+)/.exec(JSON.stringify(event.data)) : null;
      if (printed === null) continue;
      pid = Number(printed[1]);
      break;
    }
    expect(isAlive(pid)).toBe(true);
    expect(await session.interrupt()).toBe(true);
    await expect(receipt.answer()).rejects.toMatchObject({ code: 'cancelled' });
    const answered = (await session.messages()).find((message) => message.type === 'tool_response');
    // The session answers at once, and cannot know how far the command came.
    expect(answered?.content).toBe(outcomeUnknown(INTERRUPT_NOTICE));
    // The shell takes its next command after the interrupted one has ended.
    expect(await session.ask('on')).toBe('done');
    expect((await session.messages()).filter((message) => message.type === 'tool_response').at(-1)?.content).toBe(
      'back',
    );
    await isGone(pid);
  });

  test('F146: a timeout chosen by the model is reported with the partial output', async () => {
    const late = { toolUse: { name: 'bash', input: { command: 'echo before; sleep 60', timeout: 3 } } };
    const runtime = await runtimeOf([call('true'), late, 'done']);
    const session = runtime.session('late');
    expect(await session.ask('go')).toBe('done');
    const answered = (await session.messages()).filter((message) => message.type === 'tool_response').at(-1);
    expect(answered?.success).toBe(false);
    expect(answered?.content).toMatch(/timed out after 3 seconds[\s\S]*before/);
  });
});
