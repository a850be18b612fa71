/**
 * Shows a question that waits for a person, with the form for its answer. The form has buttons for proposed answers, a
 * field for a text, or a field for JSON beside the schema. A refused answer stays in its field, and the server's reason
 * is shown below the field.
 */
import type { ComponentChildren, JSX } from 'preact';
import { useId, useState } from 'preact/hooks';
import { ApiError } from '../client/api.ts';
import { draftValue, firstDraft } from '../model/answer-draft.ts';
import type { Observer } from '../state/observer.ts';
import type { WaitingCall } from '../wire.ts';

/** Rows of a field for JSON. They show the first members of most schemas. */
const JSON_ROWS = 8;

/** The properties of the views of a waiting call. */
export interface WaitingCallProps {
  readonly observer: Observer;
  readonly call: WaitingCall;
  /** Says where the call waits, in a list over several sessions. Missing: the call belongs to the chosen session. */
  readonly place?: ComponentChildren;
}

/** See the head of the file. */
export function QuestionForm({ observer, call, place }: WaitingCallProps): JSX.Element {
  const { session, callId, toolName, question, schema, choices = [], server } = call;
  const [text, setText] = useState(() => firstDraft(schema));
  const [refusal, setRefusal] = useState<string | undefined>(undefined);
  const [isSending, setSending] = useState(false);
  const id = useId();
  const send = (done: string, request: () => Promise<boolean>): void => {
    setSending(true);
    setRefusal(undefined);
    request()
      .then(
        (holds) => {
          observer.waiting.changed();
          observer.say(holds ? done : `${toolName} was answered elsewhere, or no longer waits`, !holds);
        },
        (error: unknown) => {
          if (error instanceof ApiError && error.status === 400) setRefusal(error.message);
          else return observer.act(done, () => Promise.reject(error));
          return undefined;
        },
      )
      .finally(() => setSending(false))
      .catch((error: unknown) => observer.say(String(error), true));
  };
  const answer = (value: unknown): void =>
    send(`Answered ${toolName}`, () => observer.api.answer(session, callId, value));
  const submit = (): void => {
    const draft = draftValue(text, schema);
    if ('problem' in draft) setRefusal(draft.problem);
    else answer(draft.value);
  };
  const placeholder = choices.length === 0 ? 'Write an answer…' : 'Or write another answer…';
  return (
    <form
      class="approval question"
      aria-label={`Question of ${session}`}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <div class="approval-call">
        <p>
          <b>{server ?? toolName}</b> {place ?? 'asks you'}
        </p>
        <p class="question-text" id={`${id}-question`}>
          {question}
        </p>
        {choices.length === 0 ? null : (
          <fieldset class="question-choices" aria-label="Proposed answers">
            {choices.map((choice) => (
              <button key={choice} type="button" disabled={isSending} onClick={() => answer(choice)}>
                {choice}
              </button>
            ))}
          </fieldset>
        )}
        <div class={schema === undefined ? undefined : 'question-value'}>
          <textarea
            rows={schema === undefined ? 1 : JSON_ROWS}
            class={schema === undefined ? undefined : 'question-json'}
            aria-label={`Answer to ${toolName} of ${session}`}
            aria-describedby={`${id}-question`}
            aria-invalid={refusal !== undefined}
            spellcheck={schema === undefined}
            placeholder={schema === undefined ? placeholder : 'JSON'}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
                event.preventDefault();
                if (!isSending) submit();
              }
              if (event.key === 'Escape') event.currentTarget.blur();
            }}
          />
          {schema === undefined ? null : (
            // The schema is shown in a field, so that the keyboard can reach and scroll it.
            <textarea
              readOnly
              rows={JSON_ROWS}
              class="question-schema"
              aria-label={`Schema of the answer to ${toolName} of ${session}`}
              spellcheck={false}
              value={JSON.stringify(schema, undefined, 2)}
            />
          )}
        </div>
        {refusal === undefined ? null : (
          <p class="question-refusal" role="alert">
            {refusal}
          </p>
        )}
      </div>
      <div class="approval-end">
        <button
          type="submit"
          class="primary"
          disabled={isSending}
          title="Ctrl+Enter"
          aria-label={`Answer ${toolName} of ${session}`}
        >
          Answer
        </button>
        <button
          type="button"
          disabled={isSending}
          aria-label={`Decline ${toolName} of ${session}`}
          onClick={() => send(`Declined ${toolName}`, () => observer.api.decline(session, callId))}
        >
          Decline
        </button>
      </div>
    </form>
  );
}
