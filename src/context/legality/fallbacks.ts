/** Rules for fallbacks, the models that the API calls after another model refused: R56. Pure. */
import { given, member, needsBeta, type Report, type RequestView } from './report.ts';

const FALLBACKS = ['server-side-fallback-2026-07-01', 'server-side-fallback-2026-06-01'];
/** The only beta flag that permits `fallbacks: 'default'`, by which the API itself chooses the models. */
const DEFAULT = ['server-side-fallback-2026-07-01'];
const CREDIT = ['fallback-credit-2026-07-01', 'fallback-credit-2026-06-01'];
const MODELS_MAX = 3;

/** Reports R56. */
export function checkFallbacks(view: RequestView, report: Report): void {
  const { fallbacks, fallback_credit_token: token } = view.body;
  if (given(token)) needsBeta(view, [...CREDIT, ...FALLBACKS], 'R56', 'fallback_credit_token', report);
  if (!given(fallbacks)) return;
  const refuse = (text: string): void => report('R56', 'fallbacks', `fallbacks: ${text}`);
  if (!view.hasBeta(...(fallbacks === 'default' ? DEFAULT : FALLBACKS)))
    return refuse('Extra inputs are not permitted');
  if (view.isBatch) return refuse('is not supported in a batch');
  if (view.traits.fallbacks === false) return refuse('is not supported for this model.');
  if (!Array.isArray(fallbacks)) {
    if (fallbacks !== 'default') refuse("Input should be 'default' or a valid list");
    return;
  }
  const models = fallbacks.map((entry: unknown) => member(entry, 'model'));
  if (models.length > MODELS_MAX) refuse(`List should have at most ${MODELS_MAX} items`);
  else if (new Set(models).size < models.length) refuse('models must be distinct');
}
