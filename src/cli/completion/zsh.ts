/** The completion script for zsh. Pure. */
import type { CommandWords, OptionWords, Values } from './words.ts';

/** See the head of the file. */
export function zshScript(commands: readonly CommandWords[]): string {
  const names = commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary.replaceAll(':', '\\:')}`)}`);
  const cases = commands.map(({ name, options, arguments: all }) => {
    const specs = [
      ...options.map(optionSpec),
      ...all.map((values, index) => quoted(`${index + 1}:${label(values)}:${action(values)}`)),
    ];
    return `    ${name})\n      _arguments -S \\\n${specs.map((spec) => `        ${spec}`).join(' \\\n')}\n      ;;`;
  });
  return `#compdef troupe
# Completion of troupe for zsh. In ~/.zshrc, after compinit: source <(troupe completion zsh)
_troupe_sessions() {
  local -a place ids
  local at=\${words[(i)--data]}
  (( at < CURRENT - 1 )) && place=(--data "\${(Q)words[at + 1]}")
  ids=(\${(f)"$(troupe ls --json --limit 200 $place 2>/dev/null | sed -n 's/^{"id":"\\([^"]*\\)".*/\\1/p')"})
  compadd -a ids
}

_troupe() {
  local -a commands
  commands=(
${names.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe -t commands 'command' commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case "$words[1]" in
${cases.join('\n')}
  esac
}

if [ "$funcstack[1]" = _troupe ]; then
  _troupe "$@"
else
  compdef _troupe troupe
fi
`;
}

function optionSpec({ word, help, values }: OptionWords): string {
  const text = help.replace(/[[\]\\:]/g, '\\$&');
  return quoted(`${word}[${text}]${values === undefined ? '' : `:${label(values)}:${action(values)}`}`);
}

function label(values: Values): string {
  return typeof values === 'string' ? values : 'word';
}

function action(values: Values): string {
  if (values === 'session') return '_troupe_sessions';
  if (values === 'directory') return '_files -/';
  if (values === 'file') return '_files';
  return values === 'text' ? ' ' : `(${values.join(' ')})`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
