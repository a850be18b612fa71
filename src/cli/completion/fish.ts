/** The completion script for fish. Pure. */
import type { CommandWords, OptionWords, Values } from './words.ts';

/** See the head of the file. */
export function fishScript(commands: readonly CommandWords[]): string {
  const names = commands.map(
    ({ name, summary }) => `complete -c troupe -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`,
  );
  const options = commands.flatMap(({ name, options: all }) => all.map((option) => optionLine(name, option)));
  const given = commands.flatMap(({ name, arguments: all }) =>
    [...new Set(all.map(valuesText).filter((text) => text !== ''))].map(
      (text) => `complete -c troupe -n ${quoted(`__fish_seen_subcommand_from ${name}`)} -a ${quoted(text)}`,
    ),
  );
  return `# Completion of troupe for fish: troupe completion fish > ~/.config/fish/completions/troupe.fish
function __troupe_sessions
    set -l words (commandline -opc)
    set -l place
    if set -l at (contains -i -- --data $words)
        set place --data $words[(math $at + 1)]
    end
    troupe ls --json --limit 200 $place 2>/dev/null | string replace -rf '^{"id":"([^"]*)".*' '$1'
end

complete -c troupe -f
${[...names, ...options, ...given].join('\n')}
`;
}

function optionLine(name: string, { word, help, values }: OptionWords): string {
  const line = `complete -c troupe -n ${quoted(`__fish_seen_subcommand_from ${name}`)} -l ${word.slice(2)}`;
  return `${line}${values === undefined ? '' : valueWords(values)} -d ${quoted(help)}`;
}

function valueWords(values: Values): string {
  if (values === 'file') return ' -r -F';
  const text = valuesText(values);
  return text === '' ? ' -x' : ` -x -a ${quoted(text)}`;
}

function valuesText(values: Values): string {
  if (values === 'session') return '(__troupe_sessions)';
  if (values === 'directory') return '(__fish_complete_directories)';
  return typeof values === 'string' ? '' : values.join(' ');
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
