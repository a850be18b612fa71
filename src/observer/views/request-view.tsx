/** Shows the model request as it would be sent now, and says whether the model's API would accept it. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { TEXT_CHARACTERS_MAX } from '../bounds.ts';
import { clockText, countOf } from '../model/wording.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import { isRecord, type RequestReport, type WireRecord } from '../wire.ts';

/** See the head of the file. */
export function RequestView({ chosen }: { readonly chosen: ChosenSession }): JSX.Element {
  const asked = chosen.request.value;
  useEffect(() => {
    chosen.askRequest().catch(() => undefined);
  }, [chosen]);
  const again = (): void => {
    chosen.askRequest().catch(() => undefined);
  };
  if (asked.kind === 'failed') {
    return (
      <div class="empty empty-pane" role="alert">
        <p class="empty-title">The request could not be read</p>
        <p>{asked.message}</p>
        <button type="button" onClick={again}>
          Try again
        </button>
      </div>
    );
  }
  const report = asked.kind === 'answered' ? asked.value : asked.kind === 'asking' ? asked.last : undefined;
  if (report === undefined) {
    return (
      <div class="ghost-rows" aria-busy="true">
        <div class="ghost ghost-short" />
        <div class="ghost" />
        <div class="ghost" />
      </div>
    );
  }
  return (
    <section
      class="request"
      aria-label="Request"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
      tabIndex={0}
    >
      <div class="request-top">
        <Legality report={report} />
        <button type="button" disabled={asked.kind === 'asking'} onClick={again}>
          Read again
        </button>
        <span class="small">{asked.kind === 'answered' ? `as of ${clockText(asked.at)}` : 'reading…'}</span>
      </div>
      <Parts report={report} />
    </section>
  );
}

/**
 * A conversation that ends with the assistant breaks this rule. The break is harmless, because the next message is
 * added before the request is sent.
 */
const ENDS_WITH_ASSISTANT = 'R12';

function Legality({ report }: { readonly report: RequestReport }): JSX.Element {
  const { request, violations: all } = report;
  const sent = Array.isArray(request['messages']) ? request['messages'].filter(isRecord) : [];
  const isAnswered = sent.at(-1)?.['role'] === 'assistant';
  const violations = isAnswered ? all?.filter(({ rule }) => rule !== ENDS_WITH_ASSISTANT) : all;
  if (violations === undefined) {
    return <p class="legality">The server does not say whether it is legal.</p>;
  }
  const fatal = violations.filter((violation) => violation.fatal).length;
  if (violations.length === 0) {
    return (
      <p class="legality is-legal">
        <b>✓ Legal</b> no rule of the Messages API is broken{isAnswered ? '; it is sent with the next message' : ''}
      </p>
    );
  }
  return (
    <div class={fatal > 0 ? 'legality is-failed' : 'legality'}>
      <p>
        <b>{fatal > 0 ? '✕ Would be refused' : '! Doubtful'}</b> {countOf(violations.length, 'rule')} broken
      </p>
      <ul>
        {violations.map((violation) => (
          <li key={`${violation.rule} ${violation.path}`}>
            <code>{violation.rule}</code> <code>{violation.path}</code> {violation.message}
            {violation.fatal ? '' : ' (warning)'}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Parts({ report }: { readonly report: RequestReport }): JSX.Element {
  const { system, tools, messages, ...settings } = report.request;
  const toolList = Array.isArray(tools) ? tools.filter(isRecord) : [];
  const messageList = Array.isArray(messages) ? messages.filter(isRecord) : [];
  return (
    <>
      <dl class="settings">
        {Object.entries(settings).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
          </div>
        ))}
        <div>
          <dt>size</dt>
          <dd>{JSON.stringify(report.request).length.toLocaleString('en')} characters</dd>
        </div>
      </dl>
      <details open>
        <summary>System prompt</summary>
        {system === undefined ? (
          <p class="small">none</p>
        ) : (
          <Text text={typeof system === 'string' ? system : json(system)} />
        )}
      </details>
      <details open={toolList.length <= 3}>
        <summary>{countOf(toolList.length, 'tool')}</summary>
        {toolList.map((tool) => (
          <details key={String(tool['name'])} class="inner">
            <summary>
              <code>{String(tool['name'])}</code> <span class="small">{String(tool['description'] ?? '')}</span>
            </summary>
            <Text text={json(tool['input_schema'])} />
          </details>
        ))}
      </details>
      <details open>
        <summary>{countOf(messageList.length, 'message')}</summary>
        <ol class="sent">
          {messageList.map((message, index) => (
            <li key={index}>
              <span class="sent-role">
                {String(message['role'])}
                <span class="small">{index}</span>
              </span>
              <div class="sent-blocks">
                {blocksOf(message).map((block, place) => (
                  <Block key={place} block={block} />
                ))}
              </div>
            </li>
          ))}
        </ol>
      </details>
    </>
  );
}

function Block({ block }: { readonly block: WireRecord }): JSX.Element {
  const { type, ...rest } = block;
  if (type === 'text') return <Text text={String(block['text'] ?? '')} isProse />;
  return (
    <div class="sent-block">
      <span class="sent-type">{String(type)}</span>
      <Text text={json(rest)} />
    </div>
  );
}

/** A text, cut if it is long. */
function Text({ text, isProse = false }: { readonly text: string; readonly isProse?: boolean }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const isCut = !isWhole && text.length > TEXT_CHARACTERS_MAX;
  return (
    <>
      <div class={isProse ? 'said-text' : 'said-text is-code'}>{isCut ? text.slice(0, TEXT_CHARACTERS_MAX) : text}</div>
      {isCut ? (
        <button type="button" class="link" onClick={() => setWhole(true)}>
          Show all {text.length.toLocaleString('en')} characters
        </button>
      ) : null}
    </>
  );
}

function blocksOf(message: WireRecord): readonly WireRecord[] {
  const { content } = message;
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return Array.isArray(content) ? content.filter(isRecord) : [];
}

function json(value: unknown): string {
  return JSON.stringify(value, undefined, 2) ?? '';
}
