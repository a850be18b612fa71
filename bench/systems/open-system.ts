/** Opens a system in a new directory, which is removed after the work. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLoop } from '../loop/durable-loop.ts';
import type { RunContext } from '../names.ts';
import { openKernel, openMemoryKernel } from './kernel-system.ts';
import type { DrainSystem } from './system.ts';
import { type Isolation, openTroupe, type TroupeOptions, type TroupeSystem } from './troupe-system.ts';

/** Opens the system of a run, gives it to `use`, closes it and removes its directory. */
export function withSystem<T>(context: RunContext, use: (system: DrainSystem) => Promise<T>): Promise<T> {
  return withDirectory(async (directory) => {
    const system = await openSystem(context, directory);
    try {
      return await use(system);
    } finally {
      await system.close();
    }
  });
}

/** The same for a workload of troupe alone. */
export function withTroupe<T>(
  options: TroupeOptions,
  use: (system: TroupeSystem, directory: string) => Promise<T>,
): Promise<T> {
  return withDirectory(async (directory) => {
    const system = await openTroupe(directory, options);
    try {
      return await use(system, directory);
    } finally {
      await system.close();
    }
  });
}

/** Makes a new directory and removes it after the work. */
export async function withDirectory<T>(use: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-bench-'));
  try {
    return await use(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The use of threads by this system. Throws for systems other than troupe. */
export function isolationOf({ system }: RunContext): Isolation {
  if (system === 'inline' || system === 'isolated') return system;
  throw new Error(`${system} is not troupe`);
}

async function openSystem(context: RunContext, directory: string): Promise<DrainSystem> {
  switch (context.system) {
    case 'loop':
      return openLoop(directory, context.loopFolder);
    case 'kernel':
      return openKernel(directory);
    case 'memory':
      return openMemoryKernel();
    case 'sdk':
      throw new Error('the bare SDK loop runs W5, W5s and W10 only');
    case 'http':
      throw new Error('node:http runs W10 only');
    case 'inline':
    case 'isolated':
      return openTroupe(directory, { isolation: context.system });
  }
}
