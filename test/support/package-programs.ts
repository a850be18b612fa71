/**
 * Programs as a user writes them. They are files inside this package, so that `import 'troupe'` finds the built package
 * by its own exports. They are compiled and type-checked like a user's, and run in a separate process.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));

/** The Node that runs the programs: `npm run fresh` names another than that of the tests. */
export const programNode: string = process.env['TROUPE_PROGRAM_NODE'] ?? process.execPath;

/** Compiled programs in a separate directory. */
export interface Programs {
  readonly directory: string;
  /** Runs a program to its end and returns its output. Rejects with its error output if it fails. */
  run(
    name: string,
    options?: { readonly args?: readonly string[]; readonly environment?: Environment },
  ): Promise<string>;
  /** Starts a program. The caller ends it. */
  start(name: string, environment?: Environment): ChildProcess;
  remove(): Promise<void>;
}

type Environment = Readonly<Record<string, string>>;

/** Compiles programs, by name without `.ts`. Rejects with the compiler's output. */
export async function compilePrograms(sources: Readonly<Record<string, string>>): Promise<Programs> {
  await mkdir(join(root, '.troupe'), { recursive: true });
  const directory = await mkdtemp(join(root, '.troupe', 'programs-'));
  const remove = (): Promise<void> => rm(directory, { recursive: true, force: true });
  try {
    for (const [name, text] of Object.entries(sources)) await writeFile(join(directory, `${name}.ts`), text);
    await writeFile(
      join(directory, 'tsconfig.json'),
      JSON.stringify({
        extends: join(root, 'tsconfig.json'),
        compilerOptions: { noEmit: false, outDir: '.', rootDir: '.', isolatedDeclarations: false, declaration: false },
        files: Object.keys(sources).map((name) => `${name}.ts`),
        include: [],
      }),
    );
    await compile(directory);
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    directory,
    run: async (name, { args = [], environment = {} } = {}) => {
      const { stdout } = await execute(programNode, [`${name}.js`, ...args], {
        cwd: directory,
        env: environmentOf(environment),
      });
      return stdout;
    },
    start: (name, environment = {}) =>
      spawn(programNode, [`${name}.js`], {
        cwd: directory,
        env: environmentOf(environment),
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    remove,
  };
}

/** The environment has no key, so no program of a test calls the real API. */
function environmentOf(own: Environment): NodeJS.ProcessEnv {
  const { ANTHROPIC_API_KEY: _key, ANTHROPIC_AUTH_TOKEN: _token, ...inherited } = process.env;
  return { ...inherited, ...own };
}

async function compile(project: string): Promise<void> {
  try {
    await execute(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', project]);
  } catch (error) {
    throw new Error(`does not compile:\n${(error as { stdout?: string }).stdout ?? ''}`, { cause: error });
  }
}
