/** What a person has chosen of the page itself, kept in the browser. A browser that keeps nothing is as good. */
import { type Signal, signal } from '@preact/signals';
import { VIEW_MODES, type ViewMode } from '../model/message-view.ts';

/** Light, dark, or as the system is. */
export type Theme = 'system' | 'light' | 'dark';

const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

/** Choices that outlive the page. */
export interface Preferences {
  readonly theme: Signal<Theme>;
  readonly mode: Signal<ViewMode>;
  /** The next of the three. */
  turnTheme(): void;
  setMode(mode: ViewMode): void;
}

/** The preferences of this browser; shown on the document from now on. */
export function createPreferences(): Preferences {
  const theme = signal<Theme>(oneOf(THEMES, read('theme')) ?? 'system');
  const mode = signal<ViewMode>(oneOf(VIEW_MODES, read('mode')) ?? 'verbose');
  theme.subscribe((value) => {
    if (value === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = value;
  });
  return {
    theme,
    mode,
    turnTheme() {
      theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'system';
      write('theme', theme.value);
    },
    setMode(value) {
      mode.value = value;
      write('mode', value);
    },
  };
}

/** The token of this tab: from the address (`#token=`), which then loses it, or from before a reload. */
export function readToken(): string | undefined {
  const given = /[#&]token=([^&]*)/u.exec(location.hash)?.[1];
  if (given === undefined) return fromStore(() => sessionStorage.getItem('troupe.token')) ?? undefined;
  const token = decodeURIComponent(given);
  history.replaceState(null, '', `${location.pathname}${location.search}`);
  keepToken(token);
  return token;
}

/** Keeps the token until the tab is closed. */
export function keepToken(token: string): void {
  fromStore(() => sessionStorage.setItem('troupe.token', token));
}

function read(name: string): string | undefined {
  return fromStore(() => localStorage.getItem(`troupe.${name}`)) ?? undefined;
}

function write(name: string, value: string): void {
  fromStore(() => localStorage.setItem(`troupe.${name}`, value));
}

/** A browser may refuse its stores altogether: the choice then lasts as long as the page. */
function fromStore<T>(use: () => T): T | undefined {
  try {
    return use();
  } catch {
    return undefined;
  }
}

function oneOf<T extends string>(values: readonly T[], value: string | undefined): T | undefined {
  return values.find((each) => each === value);
}
