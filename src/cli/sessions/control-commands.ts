/** `troupe interrupt`, `pause`, `resume` and `delete`: one change of one session, on a server or in a directory. */
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import { type Command, EXIT, NotFoundError, type OptionSpec } from '../command.ts';
import { AUTHOR_OPTION, authorAt } from '../places/author.ts';
import { findPlace, PLACE_OPTIONS } from '../places/place.ts';
import { pathOf } from '../places/served-reader.ts';
import { type ChangeWays, changeSession } from '../places/session-change.ts';
import type { Surroundings } from '../surroundings.ts';
import { printable, printableJson } from '../text-layout.ts';

const interruptedSchema = z.looseObject({ interrupted: z.boolean() });
const pausedSchema = z.looseObject({ paused: z.boolean() });

/** The result of a change: a member of the JSON, and the sentence for people. */
interface Change {
  readonly json: Readonly<Record<string, boolean>>;
  readonly text: string;
}

interface Control {
  readonly help: string;
  readonly options?: Readonly<Record<string, OptionSpec>>;
  readonly detail: string;
  /** `by`: the author of a change in a directory. */
  readonly ways: (id: string, reason: string | undefined, by: string) => ChangeWays<Change>;
}

const NO_WORK = 'In a directory that no process has open only the log changes: no work starts, no model is called.';

function control({ help, options = {}, detail, ways }: Control): Command {
  return {
    positionals: [{ name: 'session', required: true, help, completes: 'session' }],
    options: { ...options, ...PLACE_OPTIONS },
    details: [`${detail} Exits with 1 if there is no such session. ${NO_WORK}`],
    run: async (given, surroundings: Surroundings) => {
      const id = given.positional('session') ?? '';
      const place = await findPlace(given, surroundings);
      const { json, text } = await changeSession(
        place,
        id,
        surroundings,
        ways(id, given.text('reason'), authorAt(place, given)),
      );
      surroundings.stdout.write(given.flag('json') ? `${printableJson({ session: id, ...json })}\n` : `${text}\n`);
      return EXIT.ok;
    },
  };
}

function interruption(id: string, isInterrupted: boolean): Change {
  const text = isInterrupted ? `Interrupted: ${printable(id)}` : `${printable(id)} was not running.`;
  return { json: { interrupted: isInterrupted }, text };
}

/** `troupe interrupt`. */
export const interruptCommand: Command = control({
  help: 'Session whose turn to cancel',
  options: { reason: { kind: 'text', value: 'TEXT', help: 'The reason, for the log' } },
  detail:
    'Cancels the model call, the running tools and the working children of the session. What it had done stays in the log.',
  ways: (id, reason) => ({
    served: async (server) => {
      const path = `${pathOf(id)}/interrupt`;
      const { interrupted } = await server.ask(path, interruptedSchema, { body: defined({ reason }) });
      return interruption(id, interrupted);
    },
    stored: async (runtime) => interruption(id, await runtime.session(id).interrupt(reason)),
  }),
});

/** `troupe pause`. */
export const pauseCommand: Command = control({
  help: 'Session to pause',
  detail: 'No half-step of the session starts until `troupe resume`, also after a restart. Running work continues.',
  ways: (id) => {
    const change = { json: { paused: true }, text: `Paused: ${printable(id)}` };
    return {
      served: async (server) => {
        await server.ask(`${pathOf(id)}/pause`, pausedSchema, { body: {} });
        return change;
      },
      stored: async (runtime) => {
        await runtime.session(id).pause();
        return change;
      },
    };
  },
});

/** `troupe resume`. */
export const resumeCommand: Command = control({
  help: 'Session to resume',
  detail:
    'Ends a pause, or the block after refused credentials. The session continues on its server, or when a program next opens the directory.',
  ways: (id) => {
    const change = { json: { paused: false }, text: `Resumed: ${printable(id)}` };
    return {
      served: async (server) => {
        await server.ask(`${pathOf(id)}/resume`, pausedSchema, { body: {} });
        return change;
      },
      stored: async (runtime) => {
        await runtime.session(id).resume();
        return change;
      },
    };
  },
});

/** `troupe delete`. */
export const deleteCommand: Command = control({
  help: 'Session to delete, with its descendants',
  options: AUTHOR_OPTION,
  detail:
    'Deletes the session and its descendants, without asking. `troupe export` keeps a copy. The audit log keeps their ids.',
  ways: (id, _reason, by) => {
    const change = { json: { deleted: true }, text: `Deleted: ${printable(id)}` };
    return {
      served: async (server) => {
        await server.ask(pathOf(id), z.undefined(), { method: 'DELETE' });
        return change;
      },
      stored: async (runtime) => {
        if (!(await runtime.sessions.delete(id, { by })))
          throw new NotFoundError(`there is no session ${JSON.stringify(id)}`);
        return change;
      },
    };
  },
});
