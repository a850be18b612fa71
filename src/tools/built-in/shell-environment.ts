/** The environment of an unattended shell. */
import { withoutSecrets } from '../../base/secret-environment.ts';

/** Settings that keep programs from waiting for a person, or from paging their output. */
const UNATTENDED: Readonly<Record<string, string>> = {
  TERM: 'dumb',
  PAGER: 'cat',
  GIT_PAGER: 'cat',
  MANPAGER: 'cat',
  SYSTEMD_PAGER: '',
  // Git must not prompt: not here, not through a helper program, not in a window, not through ssh.
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: '',
  GCM_INTERACTIVE: 'never',
  GIT_SSH_COMMAND: 'ssh -o BatchMode=yes',
  SSH_ASKPASS_REQUIRE: 'never',
  DEBIAN_FRONTEND: 'noninteractive',
  PIP_NO_INPUT: '1',
};

/** Variables not passed on: they would run something in a starting shell, or end it. */
const WITHHELD: readonly string[] = ['ENV', 'BASH_ENV', 'PROMPT_COMMAND', 'TMOUT', 'MAIL', 'MAILPATH'];

/**
 * The environment of a shell: that of the process, with `extra` on top. Secrets are left out, except those named in
 * `secretEnv`. The model has no use for them, and a listing of the environment would put them into the log.
 */
export function shellEnvironment(
  extra: Readonly<Record<string, string>>,
  secretEnv: readonly string[],
): Readonly<Record<string, string | undefined>> {
  const inherited = withoutSecrets(process.env, secretEnv);
  for (const name of WITHHELD) delete inherited[name];
  return { ...inherited, ...UNATTENDED, ...extra };
}
