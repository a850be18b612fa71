/**
 * `bash`: a persistent shell, one for each session (contract §11.2). The tool hands its calls to the shell thread
 * (`shell-thread.ts`), so that reading the output of commands takes no time of the host thread.
 */
import { z } from 'zod';
import { SHELL_COMMANDS_MAX, SHELL_TIMEOUT_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { parseOption } from '../../base/parse-option.ts';
import { secretNamesSchema } from '../../base/secret-environment.ts';
import { type Tool, tool } from '../tool.ts';
import type { BashInput } from './shell-calls.ts';
import { ShellsOfTool, shellThread } from './shell-thread.ts';

export type { BashInput } from './shell-calls.ts';

/** Options of `bashTool`. */
export interface BashOptions {
  /**
   * The directory in which sessions start; a child session starts in its parent's directory. Default: the working
   * directory of the process.
   */
  readonly cwd?: string;
  /** Variables added to the process's environment. The process's own variables that look like secrets are left out. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Variables of the process that are passed on although their names look like secrets (`['GITHUB_TOKEN']`). Default:
   * none.
   */
  readonly secretEnv?: readonly string[];
  /** The shell's program: bash or a POSIX shell. Default: `bash`, or `sh` where there is no bash. */
  readonly shell?: string;
  /** Milliseconds that an unused shell is kept; default ten minutes. */
  readonly idleMs?: number;
}

/** A `bash` tool, with its shells. */
export interface BashTool extends Tool<BashInput> {
  /** Ends all its shells and everything that runs in them. A later call starts a new shell. Never rejects. */
  close(): Promise<void>;
}

const optionsSchema: z.ZodType<BashOptions> = z.strictObject({
  cwd: z.string().min(1).optional(),
  env: z.record(z.string(), z.string()).optional(),
  secretEnv: secretNamesSchema.optional(),
  shell: z.string().min(1).optional(),
  idleMs: z.number().int().positive().optional(),
}) as unknown as z.ZodType<BashOptions>;

const input = z.object({
  command: z.string().optional().describe('The command line to run'),
  commands: z
    .array(z.string())
    .max(SHELL_COMMANDS_MAX)
    .optional()
    .describe('Instead of command: command lines to run one after the other, even if earlier ones fail'),
});

/**
 * A `bash` tool with its own options. Throws `ConfigError` for bad options. The tool's failures are results.
 *
 * A session's shell stays between calls and turns: directory, variables and background jobs are kept. Calls of one
 * session run one after the other. The timeout covers the whole call, including the wait and all commands of a batch.
 *
 * Security: commands run with the rights of the process that embeds the runtime, on its machine. The model can read,
 * write and reach everything that the process can. The tool does not sandbox commands: grant it only where the whole
 * process is sandboxed. The environment is passed on without variables that look like secrets (`secretEnv` names
 * exceptions). Secrets are not safe even then, because a command may read the memory of the process.
 *
 * Sessions are distinguished by their ids: runtimes in one process that use the same ids need separate tools.
 */
export function bashTool(options: BashOptions = {}): BashTool {
  const { cwd, env, secretEnv, shell, idleMs } = parseOption(optionsSchema, 'bashTool', options);
  const shells = new ShellsOfTool(shellThread, {
    cwd: cwd ?? process.cwd(),
    env: env ?? {},
    secretEnv: secretEnv ?? [],
    programs: shell === undefined ? ['bash', 'sh'] : [shell],
    ...defined({ idleMs }),
  });
  const made = tool({
    name: 'bash',
    description:
      'Run commands in a shell that stays: directory, variables and background jobs survive between calls. Answers what the ' +
      'commands print, OK for nothing, and the exit code where it is not 0. There is no terminal and no input: use flags instead of prompts. Give either command ' +
      'or commands. Start what runs for long in the background with its output in a file.',
    snippet: 'run commands in a shell that stays',
    input,
    effect: 'once',
    timeoutMs: SHELL_TIMEOUT_MS,
    adjustableTimeout: true,
    run: (call, context) => shells.run(call, { ...context, timeoutMs: context.timeoutMs ?? SHELL_TIMEOUT_MS }),
  });
  return shells.belongTo({ ...made, close: () => shells.close() });
}

/**
 * The `bash` tool with default options. It runs with the rights, directory and environment of the process, without
 * variables that look like secrets.
 */
export const bash: BashTool = bashTool();
