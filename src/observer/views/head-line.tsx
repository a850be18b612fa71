/** The line at the top: the activity of the runtime, the state of the connection, and the page's switches. */
import type { JSX } from 'preact';
import type { StreamState } from '../client/event-stream.ts';
import type { HeadFigures, ProviderFigures } from '../model/metrics-history.ts';
import { countOf, countText, durationText, rateText } from '../model/wording.ts';
import type { Observer } from '../state/observer.ts';
import type { Preferences, Theme } from '../state/preferences.ts';
import { useNow } from './virtual-frame.ts';

const THEME_WORDS: Readonly<Record<Theme, string>> = { system: 'Auto', light: 'Light', dark: 'Dark' };

/** See the head of the file. */
export function HeadLine(props: {
  readonly observer: Observer;
  readonly preferences: Preferences;
  readonly onHelp: () => void;
}): JSX.Element {
  const { observer, preferences, onHelp } = props;
  const theme = preferences.theme.value;
  return (
    <header class="head">
      <h1 class="brand">
        <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
          <circle cx="8" cy="3.6" r="2.6" class="fill" />
          <circle cx="3.6" cy="11.8" r="2.6" class="stroke" />
          <circle cx="12.4" cy="11.8" r="2.6" class="stroke" />
          <path d="M9.8 11.8a2.6 2.6 0 0 1 5.2 0z" class="fill" />
        </svg>
        troupe <span class="brand-more">observer</span>
      </h1>
      <Figures figures={observer.figures.value} />
      <div class="head-end">
        <Connection state={observer.stream.value} onRetry={() => observer.retry()} />
        <button
          type="button"
          class="quiet"
          onClick={preferences.turnTheme}
          title="Theme: as the system, light, dark (t)"
        >
          {THEME_WORDS[theme]}
        </button>
        <button type="button" class="quiet" onClick={onHelp} aria-label="Keys and signs" title="Keys and signs (?)">
          ?
        </button>
      </div>
    </header>
  );
}

function Figures({ figures }: { readonly figures: HeadFigures | undefined }): JSX.Element {
  const value = (figure: number | undefined, word: (figure: number) => string): string =>
    figure === undefined ? '–' : word(figure);
  const providers = figures?.providers ?? [];
  const stopped = providers.filter(({ trouble }) => trouble !== undefined);
  return (
    <dl class="figures" aria-label="The runtime now">
      <div class="figure figure-wide">
        <dt>half-steps/s</dt>
        <dd>
          <b>{value(figures?.halfStepRate, rateText)}</b>
          <Spark values={figures?.history ?? []} />
        </dd>
      </div>
      <div class="figure" title="Sessions in a turn, and those that wait for admission">
        <dt>sessions</dt>
        <dd>
          <b>{value(figures?.sessionsLive, countText)}</b> run · {value(figures?.sessionsQueued, countText)} wait
        </dd>
      </div>
      <div class="figure" title="Tool calls that wait for a person">
        <dt>for a person</dt>
        <dd class={(figures?.callsWaiting ?? 0) > 0 ? 'figure-asks' : ''}>
          <b>{value(figures?.callsWaiting, countText)}</b> wait
        </dd>
      </div>
      <div
        class="figure"
        title={['Model calls in flight, and those held back by rates and limits', ...providers.map(providerText)].join(
          '\n',
        )}
      >
        <dt>model calls</dt>
        <dd>
          <b>{value(figures?.modelCallsRunning, countText)}</b> run · {value(figures?.modelCallsWaiting, countText)}{' '}
          wait
          {stopped.length === 0 ? null : (
            <span class="provider-stopped">· {countOf(stopped.length, 'provider')} stopped</span>
          )}
        </dd>
      </div>
      <div class="figure" title="Tool calls in flight, and those of them that wait for a tool thread">
        <dt>tools</dt>
        <dd>
          <b>{value(figures?.toolCallsRunning, countText)}</b> run · {value(figures?.toolCallsWaiting, countText)} wait
        </dd>
      </div>
      {figures?.webhooksWaiting === undefined ? null : (
        <div class="figure" title="Sessions with notices that a webhook has not delivered yet">
          <dt>webhooks</dt>
          <dd>
            <b>{countText(figures.webhooksWaiting)}</b> wait
          </dd>
        </div>
      )}
      <div class="figure" title="Transitions made durable by one write to the disk">
        <dt>turns/commit</dt>
        <dd>
          <b>{value(figures?.commitTurns, rateText)}</b>
        </dd>
      </div>
      <div class="figure" title="Delay of the host thread's loop">
        <dt>loop delay</dt>
        <dd>
          <b>{value(figures?.loopDelayMs, (ms) => (ms < 10 ? `${rateText(ms)} ms` : durationText(ms)))}</b>
        </dd>
      </div>
    </dl>
  );
}

/** A line for each provider whose calls are stopped. The head line has no room for their names. */
export function ProviderTroubles({ observer }: { readonly observer: Observer }): JSX.Element | null {
  const stopped = (observer.figures.value?.providers ?? []).filter(({ trouble }) => trouble !== undefined);
  if (stopped.length === 0) return null;
  return (
    <div class="banner banner-fail" role="alert">
      {stopped.map((each) => (
        <p key={each.name}>
          <b>
            {providerName(each)} {each.trouble}.
          </b>
          {each.waiting === 0 ? null : ` ${countOf(each.waiting, 'call')} ${each.waiting === 1 ? 'waits' : 'wait'}.`}
        </p>
      ))}
    </div>
  );
}

function providerName({ name }: ProviderFigures): string {
  return name === '' ? 'the provider without a name' : name;
}

function providerText(provider: ProviderFigures): string {
  const { running, waiting, trouble } = provider;
  const figures = `${countText(running)} run · ${countText(waiting)} wait`;
  return `${providerName(provider)}: ${figures}${trouble === undefined ? '' : ` · ${trouble}`}`;
}

/** A chart of the last minute. */
function Spark({ values }: { readonly values: readonly number[] }): JSX.Element {
  const most = Math.max(1, ...values);
  const step = 72 / 59;
  const first = 60 - values.length;
  const points = values.map(
    (value, index) => `${((first + index) * step).toFixed(1)},${(17 - (value / most) * 15).toFixed(1)}`,
  );
  return (
    <svg class="spark" viewBox="0 0 72 18" width="72" height="18" aria-hidden="true" focusable="false">
      <path d="M0 17.5H72" class="spark-base" />
      {points.length > 1 ? <polyline points={points.join(' ')} class="spark-line" /> : null}
    </svg>
  );
}

const CONNECTION_WORDS: Readonly<Record<Exclude<StreamState['kind'], 'lost'>, string>> = {
  connecting: 'connecting',
  live: 'live',
  refused: 'refused',
  closed: 'not connected',
};

/** The state of the connection to the server. */
function Connection({ state, onRetry }: { readonly state: StreamState; readonly onRetry: () => void }): JSX.Element {
  const isLost = state.kind === 'lost';
  // Redrawn each second. The wait is measured by the browser's own clock, not by the server's.
  useNow(1_000, isLost);
  if (isLost) {
    const seconds = Math.max(0, Math.ceil((state.retryAt - Date.now()) / 1_000));
    return (
      <button type="button" class="connection connection-lost" onClick={onRetry} title="Try again now">
        <span class="dot" aria-hidden="true" />
        <span role="status">
          disconnected<span class="wide-only">, {seconds === 0 ? 'trying again' : `next attempt in ${seconds} s`}</span>
        </span>
      </button>
    );
  }
  const word = CONNECTION_WORDS[state.kind];
  return (
    <span class={`connection connection-${state.kind}`} role="status">
      <span class="dot" aria-hidden="true" />
      {word}
    </span>
  );
}
