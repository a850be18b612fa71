/** `troupe completion`: prints the script with which a shell completes the commands, options and values of `troupe`. */
import { type Arguments, type Command, type CommandEntry, EXIT, UsageError } from '../command.ts';
import type { Surroundings } from '../surroundings.ts';
import { printableJson } from '../text-layout.ts';
import { bashScript } from './bash.ts';
import { fishScript } from './fish.ts';
import { type CommandWords, wordsOf } from './words.ts';
import { zshScript } from './zsh.ts';

const SCRIPTS: Readonly<Record<string, (commands: readonly CommandWords[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};
const SHELLS = Object.keys(SCRIPTS);

/** See the head of the file. `commands`: the commands of the program. */
export function completionCommand(commands: readonly CommandEntry[]): Command {
  return {
    positionals: [{ name: 'shell', required: true, help: SHELLS.join(', '), completes: SHELLS }],
    options: { json: { kind: 'flag', help: 'Print one JSON object with the script' } },
    details: [
      'bash, in ~/.bashrc: source <(troupe completion bash)',
      'zsh, in ~/.zshrc after compinit: source <(troupe completion zsh)',
      'fish: troupe completion fish > ~/.config/fish/completions/troupe.fish',
      'Ids of sessions are completed with those of `troupe ls`.',
    ],
    run: (given, surroundings) => run(commands, given, surroundings),
  };
}

async function run(commands: readonly CommandEntry[], given: Arguments, { stdout }: Surroundings): Promise<number> {
  const shell = given.positional('shell') ?? '';
  const script = SCRIPTS[shell];
  if (script === undefined) {
    throw new UsageError(`<shell> must be one of ${SHELLS.join(', ')}, got ${JSON.stringify(shell)}`);
  }
  const words = await Promise.all(
    commands.map(async ({ name, summary, load }) => wordsOf(name, summary, await load())),
  );
  const text = script(words);
  stdout.write(given.flag('json') ? `${printableJson({ shell, script: text })}\n` : text);
  return EXIT.ok;
}
