/** Rules for the plain settings of a request: R49, R63, R64, R65. Pure. */
import { given, type Report, type RequestView } from './report.ts';

const SAMPLING = ['temperature', 'top_p', 'top_k'] as const;

/** Reports R49 and R63 to R65. */
export function checkOptions(view: RequestView, report: Report): void {
  const { body, traits } = view;
  for (const key of SAMPLING) {
    if (view.isCurrent && given(body[key])) report('R49', key, `\`${key}\` is deprecated for this model.`);
  }
  if (given(body['inference_geo']) && traits.inferenceGeo === false) {
    report('R63', 'inference_geo', 'inference_geo is not supported for this model.');
  }
  if (view.isBatch) checkBatch(view, report);
  else checkSpeed(view, report);
}

/** Reports R64. */
function checkSpeed({ body, traits, hasBeta }: RequestView, report: Report): void {
  if (body['speed'] !== 'fast') return;
  if (traits.fast === false) {
    report('R64', 'speed', "speed: 'fast' is not supported for this model.");
  } else if (traits.fastBeta !== undefined && !hasBeta(traits.fastBeta)) {
    report('R64', 'speed', 'speed: Extra inputs are not permitted');
  }
}

/** Reports R65, for the parameters of one request of a batch. */
function checkBatch({ body }: RequestView, report: Report): void {
  if (body['max_tokens'] === 0) report('R65', 'max_tokens', 'max_tokens: 0 is not supported in a batch');
  for (const key of ['stream', 'speed']) {
    if (given(body[key])) report('R65', key, `${key}: is not supported in a batch`);
  }
}
