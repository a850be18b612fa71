/** The completion script for bash. Pure. */
import type { CommandWords, Values } from './words.ts';

/** See the head of the file. */
export function bashScript(commands: readonly CommandWords[]): string {
  const names = commands.map(({ name }) => name).join(' ');
  const values = commands.flatMap(({ name, options }) =>
    options.flatMap((option) =>
      option.values === undefined ? [] : [`    ${name}:${option.word}) ${reply(option.values)}; return ;;`],
    ),
  );
  const flags = commands.map(
    ({ name, options }) => `    ${name}) words='${options.map(({ word }) => word).join(' ')}' ;;`,
  );
  const given = commands.flatMap(({ name, arguments: all }) =>
    all.map((each, index) => `    ${name}:${index}) ${reply(each)} ;;`),
  );
  const valued = commands.flatMap(({ name, options }) =>
    options.flatMap((option) => (option.values === undefined ? [] : [`${name}:${option.word}`])),
  );
  return `# Completion of troupe for bash. In ~/.bashrc: source <(troupe completion bash)
_troupe_sessions() {
  # An id with a colon is left out: bash takes the colon as the end of a word.
  "\${COMP_WORDS[0]}" ls --json --limit 200 "\${place[@]}" 2>/dev/null | sed -n 's/^{"id":"\\([^":]*\\)".*/\\1/p'
}

_troupe() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" command="\${COMP_WORDS[1]}"
  local words='' count=0 index
  local -a place=()
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${names} help --help --version' -- "$cur"))
    return
  fi
  case "$command:$prev" in
${values.join('\n')}
  esac
  if [[ "$cur" == -* ]]; then
    case "$command" in
${flags.join('\n')}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    return
  fi
  for ((index = 2; index < COMP_CWORD; index++)); do
    case "\${COMP_WORDS[index]}" in
    --data) place=(--data "\${COMP_WORDS[index + 1]}") ;;
    esac
    case "$command:\${COMP_WORDS[index]}" in
    ${valued.join('|')}) index=$((index + 1)) ;;
    *:-*) ;;
    *) count=$((count + 1)) ;;
    esac
  done
  case "$command:$count" in
${given.join('\n')}
  esac
}

complete -F _troupe troupe
`;
}

function reply(values: Values): string {
  if (values === 'session') return 'COMPREPLY=($(compgen -W "$(_troupe_sessions)" -- "$cur"))';
  if (values === 'directory') return 'COMPREPLY=($(compgen -d -- "$cur"))';
  if (values === 'file') return 'COMPREPLY=($(compgen -f -- "$cur"))';
  if (values === 'text') return ':';
  return `COMPREPLY=($(compgen -W '${values.join(' ')}' -- "$cur"))`;
}
