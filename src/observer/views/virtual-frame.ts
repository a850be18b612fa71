/** Hooks for views: the position of a scrolling frame (for long lists), media queries, and the server's time. */
import { type MutableRef, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { serverNow } from '../client/server-clock.ts';

/** Scroll position and height of a frame, in pixels. */
export interface FramePosition {
  readonly topPx: number;
  readonly framePx: number;
}

/** Follows a scrolling element: pass `frame` as its ref. */
export function useFrame<Element extends HTMLElement>(): {
  readonly frame: MutableRef<Element | null>;
  readonly position: FramePosition;
} {
  const frame = useRef<Element | null>(null);
  const [position, setPosition] = useState<FramePosition>({ topPx: 0, framePx: 800 });
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const read = (): void => {
      const topPx = element.scrollTop;
      const framePx = element.clientHeight;
      setPosition((before) => (before.topPx === topPx && before.framePx === framePx ? before : { topPx, framePx }));
    };
    const sizes = new ResizeObserver(read);
    sizes.observe(element);
    element.addEventListener('scroll', read, { passive: true });
    read();
    return () => {
      sizes.disconnect();
      element.removeEventListener('scroll', read);
    };
  }, []);
  return { frame, position };
}

/** True while the media query holds. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useLayoutEffect(() => {
    const list = matchMedia(query);
    const read = (): void => setHolds(list.matches);
    list.addEventListener('change', read);
    read();
    return () => list.removeEventListener('change', read);
  }, [query]);
  return holds;
}

/** The time by the server's clock, updated every `intervalMs` while `isMoving`. Epoch ms. */
export function useNow(intervalMs: number, isMoving: boolean): number {
  const [now, setNow] = useState(() => serverNow());
  useLayoutEffect(() => {
    setNow(serverNow());
    if (!isMoving) return undefined;
    const timer = setInterval(() => setNow(serverNow()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs, isMoving]);
  return now;
}

/** Media query for a page with room for only one pane. */
export const NARROW = '(max-width: 760px)';
