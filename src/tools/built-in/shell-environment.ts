/** The environment of a shell that nobody sits at. */
import { withoutSecrets } from '../../base/secret-environment.ts';

/** What would make a program wait for a person, or show its output in pages. */
const UNATTENDED: Readonly<Record<string, string>> = {
  TERM: 'dumb',
  PAGER: 'cat',
  GIT_PAGER: 'cat',
  MANPAGER: 'cat',
  SYSTEMD_PAGER: '',
  // Git asks nobody: neither here, nor by a program of its own, nor in a window, nor through ssh.
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: '',
  GCM_INTERACTIVE: 'never',
  GIT_SSH_COMMAND: 'ssh -o BatchMode=yes',
  SSH_ASKPASS_REQUIRE: 'never',
  DEBIAN_FRONTEND: 'noninteractive',
  PIP_NO_INPUT: '1',
};

/** Not handed on: what would run something in a shell that starts, or end it. */
const WITHHELD: readonly string[] = ['ENV', 'BASH_ENV', 'PROMPT_COMMAND', 'TMOUT', 'MAIL', 'MAILPATH'];

/**
 * The process's environment as a shell gets it, with `extra` on top. Secrets are left out, but for those named in `secretEnv`: the
 * model has no use for them, and a listing of the environment would put them into the log.
 */
export function shellEnvironment(
  extra: Readonly<Record<string, string>>,
  secretEnv: readonly string[],
): Readonly<Record<string, string | undefined>> {
  const inherited = withoutSecrets(process.env, secretEnv);
  for (const name of WITHHELD) delete inherited[name];
  return { ...inherited, ...UNATTENDED, ...extra };
}
